#include "worker/router_link.h"

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/protocol.h"
#include "common/rpc/server_stream.h"
#include "gtest/gtest.h"

namespace baton::worker {
namespace {

namespace pb = internal::v1;
using Stream = rpc::ServerBidi<pb::JoinRequest, pb::JoinResponse>;

// A router that answers every hello alike and notes what its workers do.
class FakeRouter final : public pb::WorkerRegistryService::CallbackService {
 public:
  struct Seen {
    int hellos = 0;
    pb::WorkerHello last_hello;
    // Heartbeats of the last membership, counted from its answer.
    int heartbeats = 0;
    int closed = 0;
  };

  explicit FakeRouter(pb::JoinAccepted answer) : answer_(std::move(answer)) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    target_ = absl::StrCat("127.0.0.1:", port);
  }

  const std::string& target() const { return target_; }

  grpc::ServerBidiReactor<pb::JoinRequest, pb::JoinResponse>* Join(grpc::CallbackServerContext*) override {
    const std::shared_ptr<Stream> stream = Stream::Create();
    stream->Start({.on_message = [this, call = stream.get()](const pb::JoinRequest& request) { Note(*call, request); },
                   .on_closed =
                       [this, call = stream.get()] {
                         {
                           const absl::MutexLock lock(&mutex_);
                           ++seen_.closed;
                         }
                         call->Finish(grpc::Status::OK);
                       }});
    return stream.get();
  }

  // Waits until the router has seen what `done` asks for.
  template <typename Done>
  Seen AwaitSeen(Done done) {
    const absl::MutexLock lock(&mutex_);
    const auto holds = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return done(seen_); };
    mutex_.Await(absl::Condition(&holds));
    return seen_;
  }

 private:
  void Note(Stream& call, const pb::JoinRequest& request) {
    const absl::MutexLock lock(&mutex_);
    if (!request.has_hello()) {
      ++seen_.heartbeats;
      return;
    }
    ++seen_.hellos;
    seen_.last_hello = request.hello();
    seen_.heartbeats = 0;
    pb::JoinResponse response;
    *response.mutable_accepted() = answer_;
    call.Push(std::move(response));
  }

  const pb::JoinAccepted answer_;
  absl::Mutex mutex_;
  Seen seen_ ABSL_GUARDED_BY(mutex_);
  std::string target_;
  std::unique_ptr<grpc::Server> server_;
};

RouterLink::Options LinkTo(const FakeRouter& router) {
  return {.router_target = router.target(), .hello = {}, .load = [] { return pb::WorkerHeartbeat(); }};
}

pb::JoinAccepted Answer(uint32_t version, uint64_t features) {
  pb::JoinAccepted answer;
  answer.set_protocol_version(version);
  answer.set_features(features);
  return answer;
}

TEST(RouterLink, StatesTheProtocolThatItSpeaksAndIgnoresFeaturesThatItDoesNotKnow) {
  FakeRouter router(Answer(rpc::kProtocolVersion, ~uint64_t{0}));
  RouterLink link(LinkTo(router));
  link.Start();
  // Several heartbeats after the answer: the worker has read it and stays.
  const FakeRouter::Seen seen = router.AwaitSeen([](const FakeRouter::Seen& s) { return s.heartbeats >= 4; });
  link.Stop();
  EXPECT_EQ(seen.hellos, 1);
  EXPECT_EQ(seen.closed, 0);
  EXPECT_EQ(seen.last_hello.protocol_version(), rpc::kProtocolVersion);
  EXPECT_EQ(seen.last_hello.features(), rpc::kProtocolFeatures);
}

TEST(RouterLink, LeavesARouterOfAnotherProtocolVersionAndAsksAgain) {
  for (const uint32_t version : {rpc::kProtocolVersion - 1, rpc::kProtocolVersion + 1}) {
    FakeRouter router(Answer(version, 0));
    RouterLink link(LinkTo(router));
    link.Start();
    router.AwaitSeen([](const FakeRouter::Seen& s) { return s.closed >= 1 && s.hellos >= 2; });
    link.Stop();
  }
}

}  // namespace
}  // namespace baton::worker
