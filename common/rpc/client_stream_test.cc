#include "common/rpc/client_stream.h"

#include <functional>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "baton/internal/v1/kv.grpc.pb.h"
#include "common/limits.h"
#include "common/rpc/channel_cache.h"
#include "common/rpc/server_stream.h"
#include "common/rpc/write_queue.h"
#include "gtest/gtest.h"

namespace baton::rpc {
namespace {

namespace pb = internal::v1;
using Server = ServerBidi<pb::FetchRequest, pb::FetchResponse>;
using Client = ClientBidi<pb::FetchRequest, pb::FetchResponse>;

// Ends each call after its first message, once `may_end` was notified.
class EndingService final : public pb::KvService::CallbackService {
 public:
  explicit EndingService(absl::Notification& may_end) : may_end_(may_end) {}

  grpc::ServerBidiReactor<pb::FetchRequest, pb::FetchResponse>* Fetch(grpc::CallbackServerContext*) override {
    const std::shared_ptr<Server> stream = Server::Create();
    stream->Start({.on_message =
                       [this, call = stream.get()](const pb::FetchRequest&) {
                         may_end_.WaitForNotification();
                         call->Finish(grpc::Status::OK);
                       },
                   .on_closed = [] {}});
    return stream.get();
  }

 private:
  absl::Notification& may_end_;
};

// Otherwise a thread of gRPC may be the one that drops a channel's last reference, and waits for itself.
TEST(ClientStream, HoldsItsChannelNoMoreWhenItSaysThatItIsDone) {
  absl::Notification may_end;
  EndingService service(may_end);
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);

  const auto channel = grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials(),
                                                 ChannelArguments());
  pb::KvService::Stub stub(channel);
  const int64_t references = channel.use_count();
  int64_t references_when_done = 0;
  absl::Notification done;
  std::shared_ptr<Client> stream =
      Client::Create([&stub](grpc::ClientContext* context, auto* reactor) { stub.async()->Fetch(context, reactor); },
                     {.on_message = [](const pb::FetchResponse&) {},
                      .on_done =
                          [&](const grpc::Status& status) {
                            EXPECT_TRUE(status.ok()) << status.error_message();
                            references_when_done = channel.use_count();
                            done.Notify();
                          }});
  EXPECT_TRUE(stream->Push({}));
  stream.reset();
  may_end.Notify();
  done.WaitForNotification();
  EXPECT_EQ(references_when_done, references);
}

TEST(WriteQueue, TakesAsManyMessagesAsTheBoundAndNotOneMore) {
  WriteQueue<int> queue;
  EXPECT_TRUE(queue.Push(0));
  EXPECT_EQ(*queue.Next(), 0);
  for (size_t i = 1; i < kMaxUnsentMessages; ++i) EXPECT_TRUE(queue.Push(static_cast<int>(i)));
  EXPECT_FALSE(queue.Push(-1)) << "the message that is being written counts";
  queue.WriteDone(true);
  EXPECT_TRUE(queue.Push(-1));
  EXPECT_EQ(*queue.Next(), 1);
}

}  // namespace
}  // namespace baton::rpc
