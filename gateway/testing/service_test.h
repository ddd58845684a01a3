// An API's service over real sockets and a backend that says what the test says.
#ifndef BATON_GATEWAY_TESTING_SERVICE_TEST_H_
#define BATON_GATEWAY_TESTING_SERVICE_TEST_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/random.h"
#include "common/status.h"
#include "gateway/generation_calls.h"
#include "gateway/http_server.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "router/testing/tiny_served_model.h"
#include "telemetry/testing/raw_client.h"

namespace baton::gateway {

// Keeps what it is asked, and leaves the answers to the test.
class StubBackend final : public router::GenerationBackend {
 public:
  struct Asked {
    router::GenerationRequest request;
    std::shared_ptr<router::GenerationSink> sink;
  };

  void Generate(router::GenerationRequest request, std::shared_ptr<router::GenerationSink> sink) override {
    const absl::MutexLock lock(&mutex_);
    asked_.push_back({std::move(request), std::move(sink)});
  }
  void Cancel(const JobId& id) override {
    const absl::MutexLock lock(&mutex_);
    cancelled_.push_back(id);
  }

  Asked Await(size_t index = 0) {
    const absl::MutexLock lock(&mutex_);
    const auto is_there = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return asked_.size() > index; };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&is_there), kPatience));
    return asked_.at(index);
  }
  JobId AwaitCancelled() {
    const absl::MutexLock lock(&mutex_);
    const auto is_there = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !cancelled_.empty(); };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&is_there), kPatience));
    return cancelled_.at(0);
  }
  size_t asked() const {
    const absl::MutexLock lock(&mutex_);
    return asked_.size();
  }

 private:
  static constexpr absl::Duration kPatience = absl::Seconds(20);

  mutable absl::Mutex mutex_;
  std::vector<Asked> asked_ ABSL_GUARDED_BY(mutex_);
  std::vector<JobId> cancelled_ ABSL_GUARDED_BY(mutex_);
};

// Two tokens, the last of which ends the answer.
inline router::GenerationFinished Finished() {
  router::GenerationFinished finished;
  finished.reason = FinishReason::kStop;
  finished.usage = {.prompt_tokens = 3, .output_tokens = 2, .cached_prompt_tokens = 1};
  return finished;
}

// A test of a service adds the service's routes and starts; it stops before the service ends.
class ServiceTest : public ::testing::Test {
 protected:
  void Start() { EXPECT_TRUE(server_.Start().ok()); }
  void Stop() {
    server_.Stop();
    calls_.AwaitNone();
  }

  static std::string PostRequest(std::string_view path, const std::string& body,
                                 const std::string& content_type = "application/json") {
    return absl::StrCat("POST ", ToAbsl(path), " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: ", content_type,
                        "\r\nContent-Length: ", body.size(), "\r\n\r\n", body);
  }
  std::string Post(std::string_view path, const std::string& body) {
    telemetry::RawClient client(server_.port());
    EXPECT_TRUE(client.Send(PostRequest(path, body)));
    return client.ReadResponse();
  }
  std::string Get(std::string_view path) {
    telemetry::RawClient client(server_.port());
    EXPECT_TRUE(client.Send(telemetry::GetRequest(path)));
    return client.ReadResponse();
  }
  // A whole answer comes in one chunk, because its length is not known when it begins.
  static std::string ReadWhole(telemetry::RawClient& client) {
    std::string response = client.ReadUntil("\r\n0\r\n\r\n");
    const size_t body = response.find("\r\n\r\n") + 4;
    const size_t text = response.find("\r\n", body) + 2;
    return response.substr(0, body) + response.substr(text, response.rfind("\r\n0\r\n\r\n") - text);
  }
  static nlohmann::json BodyJson(const std::string& response) {
    return nlohmann::json::parse(telemetry::BodyOf(response), nullptr, false);
  }

  const router::ServedModel model_ = router::TestModel();
  SeededRandom random_{7};
  StubBackend backend_;
  const router::RequestReader reader_{model_, random_};
  router::ClientWork work_{MonotonicClock()};
  const router::RequestObservers observers_{.clock = MonotonicClock(), .observers = {}};
  GenerationCalls calls_{{.model = model_,
                          .clock = MonotonicClock(),
                          .random = SystemRandom(),
                          .backend = backend_,
                          .reader = reader_,
                          .work = work_,
                          .observers = observers_}};
  HttpServer server_{{}};
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_TESTING_SERVICE_TEST_H_
