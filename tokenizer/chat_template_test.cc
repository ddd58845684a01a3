// What the oracle does not cover: limits, errors and their lines, the clock, and the input of a chat.
#include "tokenizer/chat_template.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace baton::tokenizer {
namespace {

using absl::StatusCode;
using testing::HasSubstr;
using Json = nlohmann::ordered_json;

// Every reading of the clock is `tick_ms` after the one before.
class TickingClock : public Clock {
 public:
  explicit TickingClock(int64_t tick_ms) : tick_ms_(tick_ms) {}
  TimeNs Now() const override { return (now_ms_ += tick_ms_) * kNsPerMs; }

 private:
  const int64_t tick_ms_;
  mutable int64_t now_ms_ = 1;
};

absl::StatusOr<std::string> Render(const std::string& source, const RenderOptions& options = {},
                                   const Json& variables = Json::object()) {
  absl::StatusOr<ChatTemplate> chat_template = ChatTemplate::Parse(source, options.limits);
  if (!chat_template.ok()) return chat_template.status();
  return chat_template->Render(variables, options);
}

std::string Rendered(const std::string& source, const Json& variables = Json::object()) {
  const absl::StatusOr<std::string> text = Render(source, {}, variables);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.ok() ? *text : "";
}

// The clock stands still, so that a slow machine reaches the limit under test and not the time limit.
RenderOptions Untimed() {
  static const TickingClock clock(/*tick_ms=*/0);
  return {.limits = {}, .clock = &clock, .strftime_now = nullptr};
}

void ExpectError(const std::string& source, StatusCode code, const std::string& part,
                 const RenderOptions& options = Untimed(), const Json& variables = Json::object()) {
  const absl::StatusOr<std::string> text = Render(source, options, variables);
  ASSERT_FALSE(text.ok()) << source.substr(0, 100) << " gives " << text->substr(0, 100);
  EXPECT_EQ(text.status().code(), code) << text.status();
  EXPECT_THAT(std::string(text.status().message()), HasSubstr(part));
}

std::string Repeat(const std::string& part, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += part;
  return text;
}

RenderOptions WithLimits(const jinja::Limits& limits) {
  RenderOptions options;
  options.limits = limits;
  return options;
}

constexpr char kEndlessLoop[] =
    "{% for a in range(90000) %}{% for b in range(90000) %}{% set x = a + b %}{% endfor %}{% endfor %}";

TEST(ChatTemplateLimitsTest, StepsEndALoop) {
  jinja::Limits limits;
  limits.steps = 10'000;
  ExpectError(kEndlessLoop, StatusCode::kResourceExhausted, "10000 steps", WithLimits(limits));
}

TEST(ChatTemplateLimitsTest, StepsBoundTheCostOfComparingBigValues) {
  jinja::Limits limits;
  limits.steps = 20'000;
  ExpectError("{% set s = 'a' * 1000000 %}{% for i in range(1000) %}{{ 'b' in s }}{% endfor %}",
              StatusCode::kResourceExhausted, "steps", WithLimits(limits));
}

TEST(ChatTemplateLimitsTest, DefaultStepsLeaveRoomForLongChats) {
  Json variables;
  for (int i = 0; i < 2000; ++i) variables["messages"].push_back({{"role", "user"}, {"content", "some words"}});
  const std::string text =
      Rendered("{% for m in messages %}{{ '<' + m.role + '>' + m['content'] | trim + '\\n' }}{% endfor %}", variables);
  EXPECT_EQ(text, Repeat("<user>some words\n", 2000));
}

TEST(ChatTemplateLimitsTest, TimeEndsALoop) {
  const TickingClock clock(/*tick_ms=*/100);
  RenderOptions options;
  options.clock = &clock;
  ExpectError(kEndlessLoop, StatusCode::kDeadlineExceeded, "2000 ms", options);
}

TEST(ChatTemplateLimitsTest, TimeThatStandsStillEndsNothing) {
  const TickingClock clock(/*tick_ms=*/0);
  RenderOptions options;
  options.clock = &clock;
  const absl::StatusOr<std::string> text =
      Render("{% for a in range(1000) %}{% for b in range(100) %}{% endfor %}{% endfor %}x", options);
  EXPECT_EQ(text.value_or(std::string(text.status().message())), "x");
}

TEST(ChatTemplateLimitsTest, OutputIsBoundedToTheByte) {
  jinja::Limits limits;
  limits.output_bytes = 100;
  const std::string source = "{% for i in range(10) %}{{ '123456789' }}.{% endfor %}";
  const absl::StatusOr<std::string> text = Render(source, WithLimits(limits));
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->size(), 100u);
  ExpectError(source + "x", StatusCode::kResourceExhausted, "100 bytes", WithLimits(limits));
  ExpectError("{% for i in range(11) %}{{ '123456789' }}.{% endfor %}", StatusCode::kResourceExhausted, "100 bytes",
              WithLimits(limits));
}

TEST(ChatTemplateLimitsTest, ValuesAreBoundedBeforeTheyAreMade) {
  for (const char* const source :
       {"{{ 'x' * 9000000000000000000 }}", "{{ [1, 2] * 4000000000000000000 }}",
        "{% set ns = namespace(s='xx') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
        "{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "{% set s = 'a' * 100000 %}{{ s.replace('a', s) }}", "{% set s = 'a' * 100000 %}{{ s.replace('', s) }}",
        "{% set s = 'a' * 100000 %}{{ s.join(s) }}", "{{ 'a' | indent(9000000000000) }}",
        "{% set s = '\\n' * 100000 %}{{ s | indent(100000, blank=true) }}"}) {
    ExpectError(source, StatusCode::kResourceExhausted, "bytes");
  }
}

TEST(ChatTemplateLimitsTest, NestingOfTheTextIsBounded) {
  for (const auto& [open, close] :
       {std::pair("(", ")"), std::pair("[", "]"), std::pair("{1:", "}"), std::pair("not ", ""), std::pair("-", ""),
        std::pair("1 if ", " else 2"), std::pair("f(", ")"), std::pair("1 ** ", "")}) {
    ExpectError("{{ " + Repeat(open, 2000) + "1" + Repeat(close, 2000) + " }}", StatusCode::kResourceExhausted, "");
  }
  // Chains of left-associative operators make the tree deep without nesting in the text.
  for (const char* const part : {" + 1", ".a", "[0]", "()", " | abs", " and 1"}) {
    ExpectError("{{ 1" + Repeat(part, 2000) + " }}", StatusCode::kResourceExhausted, "");
  }
  ExpectError(Repeat("{% if 1 %}", 2000) + Repeat("{% endif %}", 2000), StatusCode::kResourceExhausted, "");
  ExpectError(Repeat("{% for i in [1] %}", 2000) + Repeat("{% endfor %}", 2000), StatusCode::kResourceExhausted, "");
  EXPECT_EQ(Rendered("{{ " + Repeat("(", 50) + "1" + Repeat(")", 50) + " }}"), "1");
  EXPECT_EQ(Rendered("{{ 1" + Repeat(" + 1", 99) + " }}"), "100");
}

TEST(ChatTemplateLimitsTest, RecursionOfMacrosIsBounded) {
  ExpectError("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", StatusCode::kResourceExhausted, "deep");
}

TEST(ChatTemplateLimitsTest, NestingOfValuesIsBounded) {
  ExpectError("{% set ns = namespace(v=1) %}{% for i in range(1000) %}{% set ns.v = [ns.v] %}{% endfor %}",
              StatusCode::kResourceExhausted, "64 deep");
  Json value = 1;
  for (int i = 0; i < 100; ++i) value = Json::array({value});
  ExpectError("x", StatusCode::kResourceExhausted, "64 deep", {}, {{"v", value}});
}

TEST(ChatTemplateLimitsTest, TheTemplateItselfIsBounded) {
  jinja::Limits limits;
  limits.template_bytes = 10;
  EXPECT_EQ(*Render("1234567890", WithLimits(limits)), "1234567890");
  ExpectError("12345678901", StatusCode::kResourceExhausted, "at most 10", WithLimits(limits));
}

TEST(ChatTemplateErrorsTest, RaiseExceptionCarriesItsMessageAndLine) {
  ExpectError("a\n{% if 1 %}\n{{ raise_exception('roles must alternate') }}{% endif %}", StatusCode::kInvalidArgument,
              "roles must alternate");
  ExpectError("a\n{% if 1 %}\n{{ raise_exception('no') }}{% endif %}", StatusCode::kInvalidArgument, "line 3");
  EXPECT_EQ(Rendered("{% if 0 %}{{ raise_exception('no') }}{% endif %}fine"), "fine");
}

TEST(ChatTemplateErrorsTest, SyntaxErrorsNameTheLine) {
  ExpectError("a\nb\n{% if %}", StatusCode::kInvalidArgument, "line 3");
  ExpectError("a\n{{ 1 +", StatusCode::kInvalidArgument, "line 2");
  ExpectError("{% frobnicate %}", StatusCode::kInvalidArgument, "frobnicate");
  ExpectError("\xff", StatusCode::kInvalidArgument, "UTF-8");
}

TEST(ChatTemplateErrorsTest, UndefinedPrintsAsNothingButHasNoAttributes) {
  EXPECT_EQ(Rendered("[{{ missing }}]{{ missing is defined }}{{ 'y' if missing else 'n' }}"), "[]Falsen");
  ExpectError("{{ missing.role }}", StatusCode::kInvalidArgument, "missing");
  ExpectError("{{ missing + 'x' }}", StatusCode::kInvalidArgument, "missing");
  EXPECT_EQ(Rendered("[{{ a.b }}]", {{"a", Json::object()}}), "[]");
  ExpectError("{{ a.b.c }}", StatusCode::kInvalidArgument, "", {}, {{"a", Json::object()}});
}

TEST(ChatTemplateErrorsTest, VariablesMustBeAnObjectOfSaneValues) {
  ExpectError("x", StatusCode::kInvalidArgument, "object", {}, Json::array());
  ExpectError("x", StatusCode::kInvalidArgument, "UTF-8", {}, {{"a", "\xff"}});
  ExpectError("x", StatusCode::kInvalidArgument, "", {}, {{"a", 18446744073709551615u}});
}

TEST(ChatTemplateTest, TheDateIsTheCallersChoice) {
  ExpectError("{{ strftime_now('%Y') }}", StatusCode::kInvalidArgument, "time");
  RenderOptions options;
  options.strftime_now = [](std::string_view format) { return "<" + std::string(format) + ">"; };
  EXPECT_EQ(*Render("{{ strftime_now('%d %b %Y') }}", options), "<%d %b %Y>");
}

TEST(ChatTemplateTest, ChatsBringTheVariablesOfTransformers) {
  absl::StatusOr<ChatTemplate> chat_template = ChatTemplate::Parse(
      "{{ bos_token }}{% for m in messages %}{{ loop.index0 }}{{ m.role }}={{ m['content'] }};{% endfor %}"
      "{{ add_generation_prompt }}{{ tools is none }}{{ documents is none }}{{ eos_token is defined }}");
  ASSERT_TRUE(chat_template.ok()) << chat_template.status();
  const ChatInput input = {
      .messages = {{"user", "hi"}, {"assistant", "{{ 1 }}"}}, .add_generation_prompt = true, .bos_token = "<s>"};
  const absl::StatusOr<std::string> text = chat_template->RenderChat(input);
  ASSERT_TRUE(text.ok()) << text.status();
  // A message is data, never template text.
  EXPECT_EQ(*text, "<s>0user=hi;1assistant={{ 1 }};TrueTrueTrueFalse");
  EXPECT_FALSE(chat_template->RenderChat({.messages = {{"user", "\xc3"}}}).ok());
}

TEST(ChatTemplateTest, ToolsAndCallsHaveTheFormsOfTransformers) {
  absl::StatusOr<ChatTemplate> chat_template = ChatTemplate::Parse(
      "{{ tools[0].function.name }}{% for m in messages %}|{{ m.role }}{% for c in m.tool_calls %} {{ c.id }} {{ "
      "c.type }}"
      " {{ c.function.name }} {{ c.function.arguments.city }}{% endfor %}{{ m.name }}{{ m.tool_call_id }}{% endfor %}"
      "{{ thinks }}");
  ASSERT_TRUE(chat_template.ok()) << chat_template.status();
  ChatMessage call = {.role = "assistant", .content = ""};
  call.tool_calls.push_back({.id = "c1", .name = "weather", .arguments = R"({"city":"Paris"})"});
  ChatInput input = {.messages = {call, {.role = "tool", .content = "18", .tool_call_id = "c1", .name = "weather"}},
                     .tools = R"([{"function":{"name":"weather"}}])",
                     .variables = R"({"thinks":false})"};
  EXPECT_EQ(chat_template->RenderChat(input).value(), "weather|assistant c1 function weather Paris|toolweatherc1False");
  input.tools = "{}";
  EXPECT_FALSE(chat_template->RenderChat(input).ok());
  input.tools.clear();
  input.messages[0].tool_calls[0].arguments = "[1]";
  EXPECT_FALSE(chat_template->RenderChat(input).ok());
}

TEST(ChatTemplateTest, ItsVariablesAndTextsAreKnown) {
  absl::StatusOr<ChatTemplate> chat_template =
      ChatTemplate::Parse("<tool>{% if tools is defined %}{{ '\"call\": ' ~ message.speed }}{% endif %}");
  ASSERT_TRUE(chat_template.ok()) << chat_template.status();
  EXPECT_TRUE(chat_template->Reads("tools"));
  EXPECT_FALSE(chat_template->Reads("tool"));
  EXPECT_FALSE(chat_template->Reads("speed")) << "it is a member";
  EXPECT_TRUE(chat_template->Writes("<tool>"));
  EXPECT_TRUE(chat_template->Writes("\"call\": "));
  EXPECT_FALSE(chat_template->Writes("defined"));
}

TEST(ChatTemplateTest, WhiteSpaceAroundBlocksGoesAsTransformersSetsIt) {
  EXPECT_EQ(Rendered("a\n  {% if 1 %}\n  b\n  {% endif %}\nc\n"), "a\n  b\nc");
  EXPECT_EQ(Rendered("a \n {%- if 1 -%} \n b \n {%- endif -%} \n c"), "abc");
  EXPECT_EQ(Rendered("a\n  {{ 1 }}\n  {{- 2 -}}\n  b"), "a\n  12b");
}

}  // namespace
}  // namespace baton::tokenizer
