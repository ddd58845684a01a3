#include "common/rpc/channel_cache.h"

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpcpp/generic/async_generic_service.h"
#include "gtest/gtest.h"

namespace baton::rpc {
namespace {

constexpr std::chrono::seconds kTimeout{60};

// A process that can be called, until it ends.
class Process {
 public:
  Process() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    // Without any service nobody would poll the server's sockets.
    builder.RegisterCallbackGenericService(&service_);
    server_ = builder.BuildAndStart();
    target_ = absl::StrCat("127.0.0.1:", port);
  }
  ~Process() { End(); }

  void End() {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();
  }
  const std::string& target() const { return target_; }

 private:
  grpc::CallbackGenericService service_;
  std::unique_ptr<grpc::Server> server_;
  std::string target_;
};

std::weak_ptr<grpc::Channel> Connect(ChannelCache& cache, const Process& process, const Incarnation& incarnation) {
  const auto channel = cache.Get(process.target(), incarnation);
  EXPECT_TRUE(channel->WaitForConnected(std::chrono::system_clock::now() + kTimeout));
  return channel;
}

void AwaitDisconnected(const std::weak_ptr<grpc::Channel>& weak) {
  const auto channel = weak.lock();
  ASSERT_NE(channel, nullptr);
  EXPECT_TRUE(channel->WaitForStateChange(GRPC_CHANNEL_READY, std::chrono::system_clock::now() + kTimeout));
}

TEST(ChannelCacheTest, AProcessKeepsItsChannelAndAnotherOneAtTheSamePlaceHasItsOwn) {
  ChannelCache cache;
  const auto channel = cache.Get("127.0.0.1:1", {1, 1});
  EXPECT_EQ(cache.Get("127.0.0.1:1", {1, 1}), channel);
  EXPECT_NE(cache.Get("127.0.0.1:1", {2, 2}), channel);
}

TEST(ChannelCacheTest, AProcessThatHasEndedIsForgottenWhenAnotherOneIsCalled) {
  ChannelCache cache;
  Process first;
  const auto channel = Connect(cache, first, {1, 1});
  EXPECT_FALSE(channel.expired());
  first.End();
  AwaitDisconnected(channel);
  cache.Get("127.0.0.1:1", {2, 2});
  EXPECT_TRUE(channel.expired());
}

TEST(ChannelCacheTest, AChannelThatSomebodyUsesIsKept) {
  ChannelCache cache;
  const auto channel = cache.Get("127.0.0.1:1", {1, 1});
  ASSERT_NE(channel->GetState(false), GRPC_CHANNEL_READY);
  cache.Get("127.0.0.1:1", {2, 2});
  EXPECT_EQ(cache.Get("127.0.0.1:1", {1, 1}), channel);
}

TEST(ChannelCacheTest, AProcessThatLivesKeepsItsConnectionWhileOthersEnd) {
  ChannelCache cache;
  const Process lives;
  const auto kept = Connect(cache, lives, {1, 1});
  for (uint64_t number = 2; number < 5; ++number) {
    Process ends;
    const auto channel = Connect(cache, ends, {number, number});
    ends.End();
    AwaitDisconnected(channel);
  }
  EXPECT_EQ(cache.Get(lives.target(), {1, 1}), kept.lock());
  EXPECT_EQ(kept.lock()->GetState(false), GRPC_CHANNEL_READY);
}

}  // namespace
}  // namespace baton::rpc
