// The server's end of Fetch streams: what stands between the network and a worker's KvServer.
#ifndef BATON_SIMULATOR_FETCH_SERVER_H_
#define BATON_SIMULATOR_FETCH_SERVER_H_

#include <map>
#include <memory>
#include <string>

#include "kvtransfer/fetch_messages.h"
#include "kvtransfer/fetch_replies.h"
#include "simulator/loop_process.h"

namespace baton::simulator {

class FetchServer;
class Puller;

// One Fetch stream, as both ends see it.
struct FetchStream {
  JobKey key;
  Puller* sink = nullptr;
  kvtransfer::FetchStreamId at_sink = 0;
  // nullptr until the stream has reached a live process.
  FetchServer* source = nullptr;
  kvtransfer::FetchStreamId at_source = 0;
  Lane to_source;
  Lane to_sink;
  // Set when the network cuts the stream: messages on their way are lost.
  bool cut = false;
  // What is sent from now on to one end is lost, and nobody is told.
  bool source_is_deaf = false;
  bool sink_is_deaf = false;
  // The source's address.
  std::string target;
};

class FetchServer final : public kvtransfer::FetchReplies {
 public:
  explicit FetchServer(LoopProcess& process) : process_(process) {}

  // What the network delivers, in order for each stream.
  void OnOpen(const std::shared_ptr<FetchStream>& stream, const kvtransfer::FetchOpen& open);
  void OnRequest(const std::shared_ptr<FetchStream>& stream, const kvtransfer::FetchRequest& request);
  void OnFinished(const std::shared_ptr<FetchStream>& stream);

  void Reply(kvtransfer::FetchStreamId stream, const kvtransfer::FetchReply& reply) override;
  void Close(kvtransfer::FetchStreamId stream, const absl::Status& status) override;

  // Sends to the stream's reader; `handle` runs at its end.
  void SendToSink(const std::shared_ptr<FetchStream>& stream, Task handle);
  // The process has died: the readers notice, each in its own time.
  void CutStreams();
  void CheckQuiet() const;

 private:
  LoopProcess& process_;
  kvtransfer::FetchStreamId last_stream_ = 0;
  std::map<kvtransfer::FetchStreamId, std::shared_ptr<FetchStream>> streams_;
};

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_FETCH_SERVER_H_
