#include "telemetry/otel_settings.h"

#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::telemetry {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

using Variables = std::map<std::string, std::string>;

struct ReadSettings {
  OtelSettings settings;
  std::vector<std::string> warnings;
};

ReadSettings Read(const Variables& variables, const OtelDefaults& defaults = {}) {
  const Environment environment = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  ReadSettings read;
  read.settings = ReadOtelSettings(environment, defaults, read.warnings);
  return read;
}

// With a good endpoint besides.
ReadSettings ReadWith(Variables variables) {
  variables.emplace("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317");
  return Read(variables);
}

OtelSettings Good(const Variables& variables) {
  const ReadSettings read = ReadWith(variables);
  EXPECT_THAT(read.warnings, IsEmpty());
  EXPECT_TRUE(read.settings.enabled);
  return read.settings;
}

TEST(OtelSettings, WithoutAnEndpointNothingIsExportedAndNothingIsSaid) {
  for (const Variables& variables : std::vector<Variables>{{},
                                                           {{"OTEL_SERVICE_NAME", "x"}},
                                                           {{"OTEL_EXPORTER_OTLP_ENDPOINT", ""}},
                                                           {{"OTEL_TRACES_EXPORTER", "otlp"}}}) {
    const ReadSettings read = Read(variables);
    EXPECT_FALSE(read.settings.enabled);
    EXPECT_THAT(read.warnings, IsEmpty());
  }
}

TEST(OtelSettings, CanBeSwitchedOff) {
  for (const Variables& variables :
       std::vector<Variables>{{{"OTEL_SDK_DISABLED", "TRUE"}}, {{"OTEL_TRACES_EXPORTER", "None"}}}) {
    const ReadSettings read = ReadWith(variables);
    EXPECT_FALSE(read.settings.enabled);
    EXPECT_THAT(read.warnings, IsEmpty());
  }
  EXPECT_TRUE(Good({{"OTEL_SDK_DISABLED", "false"}, {"OTEL_TRACES_EXPORTER", "otlp"}}).enabled);
  const ReadSettings wrong = ReadWith({{"OTEL_SDK_DISABLED", "1"}, {"OTEL_TRACES_EXPORTER", "zipkin"}});
  EXPECT_TRUE(wrong.settings.enabled) << "only the word true switches off";
  EXPECT_THAT(wrong.warnings, ElementsAre(HasSubstr("OTEL_TRACES_EXPORTER"), HasSubstr("OTEL_SDK_DISABLED")));
}

TEST(OtelSettings, DefaultsAreThoseOfTheSpecification) {
  const OtelSettings settings = Good({});
  EXPECT_EQ(settings.otlp.protocol, OtlpProtocol::kGrpc);
  EXPECT_THAT(settings.otlp.headers, IsEmpty());
  EXPECT_EQ(settings.otlp.timeout_ms, 10'000);
  EXPECT_FALSE(settings.otlp.gzip);
  EXPECT_EQ(settings.batch.max_queue_spans, 2048u);
  EXPECT_EQ(settings.batch.max_batch_spans, 512u);
  EXPECT_EQ(settings.batch.schedule_delay_ms, 5'000);
  EXPECT_EQ(settings.batch.export_timeout_ms, 30'000);
  EXPECT_EQ(settings.sampler.Describe(), "parentbased_always_on");
  EXPECT_THAT(settings.resource, Contains(Pair("service.name", "baton-router")));
}

struct EndpointCase {
  const char* protocol;
  // Of OTEL_EXPORTER_OTLP_ENDPOINT; a leading "!" means OTEL_EXPORTER_OTLP_TRACES_ENDPOINT.
  const char* url;
  // tls? authority path
  const char* expected;
};

std::string Show(const OtlpEndpoint& endpoint) {
  return (endpoint.tls ? "tls " : "plain ") + endpoint.Authority() + " " + endpoint.path;
}

Variables EndpointVariables(const EndpointCase& c) {
  const bool is_for_traces = c.url[0] == '!';
  return {{"OTEL_EXPORTER_OTLP_PROTOCOL", c.protocol},
          {is_for_traces ? "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" : "OTEL_EXPORTER_OTLP_ENDPOINT",
           is_for_traces ? c.url + 1 : c.url}};
}

TEST(OtelSettings, TheBaseEndpointGetsThePathOfTracesAndThatOfTracesIsVerbatim) {
  for (const EndpointCase& c :
       std::vector<EndpointCase>{{"http/protobuf", "http://host:4318", "plain host:4318 /v1/traces"},
                                 {"http/protobuf", "http://host:4318/", "plain host:4318 /v1/traces"},
                                 {"http/protobuf", "https://host/mount", "tls host:443 /mount/v1/traces"},
                                 {"http/protobuf", "HTTP://host/mount/", "plain host:80 /mount/v1/traces"},
                                 {"http/protobuf", "!http://host:4318", "plain host:4318 /"},
                                 {"http/protobuf", "!http://host:4318/", "plain host:4318 /"},
                                 {"http/protobuf", "!https://host:4318/in?tenant=a#b", "tls host:4318 /in?tenant=a"},
                                 {"http/protobuf", "!http://[::1]:4318/v1/traces", "plain [::1]:4318 /v1/traces"},
                                 {"grpc", "http://host:4317", "plain host:4317 /"},
                                 {"grpc", "http://host", "plain host:4317 /"},
                                 {"grpc", "https://host.example.:55", "tls host.example.:55 /"},
                                 {"grpc", " http://127.0.0.1:4317 ", "plain 127.0.0.1:4317 /"},
                                 {"grpc", "http://[2001:db8::1]", "plain [2001:db8::1]:4317 /"}}) {
    const ReadSettings read = Read(EndpointVariables(c));
    EXPECT_THAT(read.warnings, IsEmpty()) << c.url;
    EXPECT_TRUE(read.settings.enabled) << c.url;
    EXPECT_EQ(Show(read.settings.otlp.endpoint), c.expected) << c.url;
  }
}

TEST(OtelSettings, AWrongEndpointLeavesTracingOffWithAWordWhy) {
  for (const EndpointCase& c : std::vector<EndpointCase>{{"http/protobuf", "host:4318", ""},
                                                         {"http/protobuf", "ftp://host", ""},
                                                         {"http/protobuf", "http://host/in?tenant=a", ""},
                                                         {"grpc", "unix:///run/otel.sock", ""},
                                                         {"grpc", "http://", ""},
                                                         {"grpc", "http://host:0", ""},
                                                         {"grpc", "http://host:65536", ""},
                                                         {"grpc", "http://host:port", ""},
                                                         {"grpc", "http://user:secret@host:4317", ""},
                                                         {"grpc", "http://[::1", ""},
                                                         {"grpc", "http://[::1]4317", ""},
                                                         {"grpc", "http://ho st", ""},
                                                         {"http/protobuf", "!http://host/a b", ""},
                                                         {"http/protobuf", "!http://host/\r\nX: y", ""}}) {
    const ReadSettings read = Read(EndpointVariables(c));
    EXPECT_FALSE(read.settings.enabled) << c.url;
    EXPECT_THAT(read.warnings, ElementsAre(AllOf(HasSubstr("ENDPOINT is no URL"), Not(HasSubstr("secret"))))) << c.url;
  }
}

TEST(OtelSettings, AnEndpointWithoutASchemeUsesTlsUnlessItIsSaidToBeInsecure) {
  const ReadSettings secure = Read({{"OTEL_EXPORTER_OTLP_ENDPOINT", "host:4317"}});
  EXPECT_EQ(Show(secure.settings.otlp.endpoint), "tls host:4317 /");
  EXPECT_THAT(secure.warnings, ElementsAre(HasSubstr("http://")));
  const ReadSettings insecure =
      Read({{"OTEL_EXPORTER_OTLP_ENDPOINT", "host:4317"}, {"OTEL_EXPORTER_OTLP_INSECURE", "true"}});
  EXPECT_EQ(Show(insecure.settings.otlp.endpoint), "plain host:4317 /");
  EXPECT_THAT(insecure.warnings, IsEmpty());
  const ReadSettings scheme =
      Read({{"OTEL_EXPORTER_OTLP_ENDPOINT", "https://host:4317"}, {"OTEL_EXPORTER_OTLP_INSECURE", "true"}});
  EXPECT_EQ(Show(scheme.settings.otlp.endpoint), "tls host:4317 /") << "a scheme wins";
}

TEST(OtelSettings, VariablesForTracesWin) {
  const OtelSettings settings = Good({{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces:1/in"},
                                      {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"},
                                      {"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"},
                                      {"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a=1"},
                                      {"OTEL_EXPORTER_OTLP_HEADERS", "b=2"},
                                      {"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "100"},
                                      {"OTEL_EXPORTER_OTLP_TIMEOUT", "200"},
                                      {"OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "gzip"},
                                      {"OTEL_EXPORTER_OTLP_COMPRESSION", "none"},
                                      {"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "/t.pem"},
                                      {"OTEL_EXPORTER_OTLP_CERTIFICATE", "/o.pem"}});
  EXPECT_EQ(Show(settings.otlp.endpoint), "plain traces:1 /in");
  EXPECT_EQ(settings.otlp.protocol, OtlpProtocol::kHttpProtobuf);
  EXPECT_THAT(settings.otlp.headers, ElementsAre(Pair("a", "1")));
  EXPECT_EQ(settings.otlp.timeout_ms, 100);
  EXPECT_TRUE(settings.otlp.gzip);
  EXPECT_EQ(settings.otlp.certificate_file, "/t.pem");
}

TEST(OtelSettings, HeadersArePercentDecodedAndTheirNamesAreLowerCase) {
  EXPECT_THAT(Good({{"OTEL_EXPORTER_OTLP_HEADERS", "Api-Key=a%20secret%2C%3D%25, x-tenant = t=1 ,,"}}).otlp.headers,
              ElementsAre(Pair("api-key", "a secret,=%"), Pair("x-tenant", "t=1")));
}

TEST(OtelSettings, ABadHeaderIsLeftOutAndItsValueIsNotShown) {
  for (const char* bad :
       {"novalue", "=hidden", "a b=hidden", "a=hidden%0d%0aX: y", "a=hidden%zz", "a=hidden%2", "host=hidden",
        "content-length=hidden", "grpc-timeout=hidden", "a=hidden\xC3\xA4", "x:y=hidden"}) {
    const ReadSettings read = ReadWith({{"OTEL_EXPORTER_OTLP_HEADERS", std::string("k=v,") + bad}});
    EXPECT_THAT(read.settings.otlp.headers, ElementsAre(Pair("k", "v"))) << bad;
    EXPECT_THAT(read.warnings, ElementsAre(AllOf(HasSubstr("position 2"), Not(HasSubstr("hidden"))))) << bad;
  }
}

TEST(OtelSettings, ResourceAttributesArePercentDecodedAndTheServiceNameWins) {
  const Variables variables = {
      {"OTEL_RESOURCE_ATTRIBUTES",
       "service.name=other,k8s.pod.name=p%2C1, deployment.environment = prod ,service.version=9"}};
  const OtelDefaults defaults = {.service_name = "mine", .resource = {{"service.version", "1"}, {"host.name", "h"}}};
  Variables with_endpoint = variables;
  with_endpoint["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://c";
  const auto resource = Read(with_endpoint, defaults).settings.resource;
  EXPECT_THAT(resource, Contains(Pair("service.name", "other")));
  EXPECT_THAT(resource, Contains(Pair("k8s.pod.name", "p,1")));
  EXPECT_THAT(resource, Contains(Pair("deployment.environment", "prod")));
  EXPECT_THAT(resource, Contains(Pair("service.version", "9")));
  EXPECT_THAT(resource, Contains(Pair("host.name", "h")));
  with_endpoint["OTEL_SERVICE_NAME"] = "named";
  const auto named = Read(with_endpoint, defaults).settings.resource;
  EXPECT_THAT(named, Contains(Pair("service.name", "named")));
  EXPECT_EQ(std::count_if(named.begin(), named.end(), [](const auto& a) { return a.first == "service.name"; }), 1);
}

TEST(OtelSettings, AMalformedListOfResourceAttributesIsLeftOutAsAWhole) {
  for (const char* bad : {"a=1,b", "a=1,=2", "a=1,b=%zz"}) {
    const ReadSettings read = ReadWith({{"OTEL_RESOURCE_ATTRIBUTES", bad}});
    EXPECT_THAT(read.settings.resource, Each(Pair(Not("a"), testing::_))) << bad;
    EXPECT_THAT(read.warnings, ElementsAre(HasSubstr("OTEL_RESOURCE_ATTRIBUTES"))) << bad;
  }
}

TEST(OtelSettings, NumbersHaveBoundsAndWrongOnesFallBackWithAWarning) {
  const OtelSettings settings = Good({{"OTEL_BSP_MAX_QUEUE_SIZE", "100"},
                                      {"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "100"},
                                      {"OTEL_BSP_SCHEDULE_DELAY", "0"},
                                      {"OTEL_BSP_EXPORT_TIMEOUT", "0"},
                                      {"OTEL_EXPORTER_OTLP_TIMEOUT", "0"},
                                      {"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "10"},
                                      {"OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "20"}});
  EXPECT_EQ(settings.batch.max_queue_spans, 100u);
  EXPECT_EQ(settings.batch.max_batch_spans, 100u);
  EXPECT_EQ(settings.batch.schedule_delay_ms, 0);
  EXPECT_EQ(settings.batch.export_timeout_ms, 3'600'000) << "0 means no limit";
  EXPECT_EQ(settings.otlp.timeout_ms, 3'600'000);
  EXPECT_EQ(settings.max_attribute_bytes, 20u);
  EXPECT_EQ(Good({{"OTEL_BSP_MAX_QUEUE_SIZE", "100"}}).batch.max_batch_spans, 100u) << "no more than fit the queue";
  for (const char* name :
       {"OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "OTEL_BSP_SCHEDULE_DELAY",
        "OTEL_BSP_EXPORT_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"}) {
    for (const char* value : {"-1", "many", "1e3", "99999999999"}) {
      const ReadSettings read = ReadWith({{name, value}});
      EXPECT_THAT(read.warnings, ElementsAre(HasSubstr(name))) << value;
      EXPECT_EQ(read.settings.batch.max_queue_spans, 2048u);
      EXPECT_EQ(read.settings.otlp.timeout_ms, 10'000);
    }
  }
  EXPECT_THAT(ReadWith({{"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4096"}}).warnings, ElementsAre(HasSubstr("2048")));
}

TEST(OtelSettings, WordsMayHaveAnyCaseAndUnknownOnesFallBackWithAWarning) {
  const OtelSettings settings = Good({{"OTEL_EXPORTER_OTLP_PROTOCOL", "HTTP/Protobuf"},
                                      {"OTEL_EXPORTER_OTLP_COMPRESSION", "GZIP"},
                                      {"OTEL_TRACES_SAMPLER", "Always_Off"}});
  EXPECT_EQ(settings.otlp.protocol, OtlpProtocol::kHttpProtobuf);
  EXPECT_TRUE(settings.otlp.gzip);
  EXPECT_EQ(settings.sampler.Describe(), "always_off");
  const ReadSettings wrong = ReadWith({{"OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"},
                                       {"OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"},
                                       {"OTEL_TRACES_SAMPLER", "sometimes"}});
  EXPECT_EQ(wrong.settings.otlp.protocol, OtlpProtocol::kGrpc);
  EXPECT_FALSE(wrong.settings.otlp.gzip);
  EXPECT_THAT(wrong.warnings, ElementsAre(HasSubstr("PROTOCOL"), HasSubstr("COMPRESSION"), HasSubstr("SAMPLER")));
}

}  // namespace
}  // namespace baton::telemetry
