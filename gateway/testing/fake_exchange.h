// An exchange without a server, for tests of what answers it: plays the server's thread by hand.
#ifndef BATON_GATEWAY_TESTING_FAKE_EXCHANGE_H_
#define BATON_GATEWAY_TESTING_FAKE_EXCHANGE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "gateway/http_types.h"

namespace baton::gateway {

// Used by one thread.
class FakeExchange final : public HttpExchange {
 public:
  HttpRequest& request() override { return request_; }
  void Respond(HttpResponse response) override { response_ = std::move(response); }
  void Stream(HttpResponse head, std::shared_ptr<BodySource> source) override {
    response_ = std::move(head);
    source_ = std::move(source);
    ++wakes_;
  }
  void Wake() override { ++wakes_; }
  void Abort() override { aborted_ = true; }
  void SetOnDone(std::function<void(const absl::Status&)> on_done) override { on_done_ = std::move(on_done); }

  // The head, or the whole response where it has no source.
  const std::optional<HttpResponse>& response() const { return response_; }
  bool streams() const { return source_ != nullptr; }
  // What the client would be sent now.
  BodySource::Piece Next() { return source_->Next(); }
  int wakes() const { return wakes_; }
  bool aborted() const { return aborted_; }
  void Done(const absl::Status& status) {
    source_.reset();
    if (const auto on_done = std::exchange(on_done_, nullptr)) on_done(status);
  }

 private:
  HttpRequest request_;
  std::optional<HttpResponse> response_;
  std::shared_ptr<BodySource> source_;
  std::function<void(const absl::Status&)> on_done_;
  int wakes_ = 0;
  bool aborted_ = false;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_TESTING_FAKE_EXCHANGE_H_
