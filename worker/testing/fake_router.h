// A router at the other end of a worker's links, over a real connection.
#ifndef BATON_WORKER_TESTING_FAKE_ROUTER_H_
#define BATON_WORKER_TESTING_FAKE_ROUTER_H_

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "baton/internal/v1/worker.grpc.pb.h"
#include "common/rpc/protocol.h"
#include "common/rpc/server_stream.h"
#include "gtest/gtest.h"

namespace baton::worker {

// A router that answers every hello alike and notes what its workers say.
class FakeRouter final : public internal::v1::ClusterService::CallbackService {
 public:
  struct Seen {
    std::vector<internal::v1::Hello> hellos;
    std::vector<absl::Time> hello_times;
    // Messages since the last hello.
    std::vector<internal::v1::WorkerMessage> messages;
    int closed = 0;
  };

  // The first hellos get no answer, `unanswered` of them.
  explicit FakeRouter(internal::v1::Accepted answer, size_t unanswered = 0)
      : answer_(std::move(answer)), unanswered_(unanswered) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    target_ = absl::StrCat("127.0.0.1:", port);
  }

  const std::string& target() const { return target_; }

  grpc::ServerBidiReactor<internal::v1::WorkerMessage, internal::v1::RouterMessage>* Join(
      grpc::CallbackServerContext*) override {
    const std::shared_ptr<Stream> stream = Stream::Create();
    // The stream owns its callbacks, which therefore do not own the stream.
    stream->Start({.on_message = [this, call = std::weak_ptr(stream)](
                                     const internal::v1::WorkerMessage& message) { Note(call.lock(), message); },
                   .on_closed =
                       [this, call = stream.get()] {
                         {
                           const absl::MutexLock lock(&mutex_);
                           ++seen_.closed;
                           // The worker may have joined anew on another connection.
                           if (stream_.get() == call) stream_.reset();
                           if (holds_ends_) return held_.push_back(call);
                         }
                         call->Finish(grpc::Status::OK);
                       }});
    return stream.get();
  }

  // Both speak on the last stream.
  void Say(internal::v1::RouterMessage message) {
    const absl::MutexLock lock(&mutex_);
    stream_->Push(std::move(message));
  }
  void End(const grpc::Status& status) {
    const absl::MutexLock lock(&mutex_);
    stream_->Finish(status);
  }
  // Streams that the worker ends are open at the router's side until LetEnd: the worker cannot know that all was heard.
  void HoldEnds() {
    const absl::MutexLock lock(&mutex_);
    holds_ends_ = true;
  }
  void LetEnd() {
    const absl::MutexLock lock(&mutex_);
    holds_ends_ = false;
    for (Stream* const call : std::exchange(held_, {})) call->Finish(grpc::Status::OK);
  }

  // Waits until the router has seen what `done` asks for.
  template <typename Done>
  Seen AwaitSeen(Done done) {
    const absl::MutexLock lock(&mutex_);
    const auto holds = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return done(seen_); };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&holds), absl::Seconds(20)));
    return seen_;
  }
  Seen AwaitHellos(size_t count) {
    return AwaitSeen([count](const Seen& s) { return s.hellos.size() >= count; });
  }
  Seen AwaitMessages(size_t count) {
    return AwaitSeen([count](const Seen& s) { return s.messages.size() >= count; });
  }

 private:
  using Stream = rpc::ServerBidi<internal::v1::WorkerMessage, internal::v1::RouterMessage>;

  void Note(const std::shared_ptr<Stream>& stream, const internal::v1::WorkerMessage& message) {
    const absl::MutexLock lock(&mutex_);
    if (!message.has_hello()) return seen_.messages.push_back(message);
    seen_.hellos.push_back(message.hello());
    seen_.hello_times.push_back(absl::Now());
    seen_.messages.clear();
    stream_ = stream;
    if (seen_.hellos.size() <= unanswered_) return;
    internal::v1::RouterMessage response;
    *response.mutable_accepted() = answer_;
    response.mutable_accepted()->set_membership(std::string(16, static_cast<char>('a' + seen_.hellos.size())));
    stream->Push(std::move(response));
  }

  const internal::v1::Accepted answer_;
  const size_t unanswered_;
  absl::Mutex mutex_;
  Seen seen_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Stream> stream_ ABSL_GUARDED_BY(mutex_);
  bool holds_ends_ ABSL_GUARDED_BY(mutex_) = false;
  // They keep themselves alive until they are finished.
  std::vector<Stream*> held_ ABSL_GUARDED_BY(mutex_);
  std::string target_;
  std::unique_ptr<grpc::Server> server_;
};

inline internal::v1::Accepted Answer(uint32_t version = rpc::kProtocolVersion, int32_t heartbeat_interval_ms = 10) {
  internal::v1::Accepted answer;
  answer.set_protocol_version(version);
  answer.set_features(~uint64_t{0});
  answer.set_heartbeat_interval_ms(heartbeat_interval_ms);
  return answer;
}

}  // namespace baton::worker

#endif  // BATON_WORKER_TESTING_FAKE_ROUTER_H_
