// A simulated prefill worker: the real prefill core, and the server's end of Fetch streams.
#ifndef BATON_SIMULATOR_PREFILL_NODE_H_
#define BATON_SIMULATOR_PREFILL_NODE_H_

#include <map>
#include <memory>
#include <set>

#include "prefill_worker/prefill_core.h"
#include "simulator/worker_node.h"

namespace baton::simulator {

class PrefillNode;

// What a Fetch stream's server says to its client.
class FetchListener {
 public:
  virtual ~FetchListener() = default;
  virtual void OnReply(kvtransfer::FetchStreamId stream, const kvtransfer::FetchReply& reply) = 0;
  virtual void OnClosed(kvtransfer::FetchStreamId stream, const absl::Status& status) = 0;
};

// One Fetch stream, as both ends see it.
struct FetchStream {
  JobKey key;
  FetchListener* sink = nullptr;
  kvtransfer::FetchStreamId at_sink = 0;
  // nullptr until the stream has reached a live process.
  PrefillNode* source = nullptr;
  kvtransfer::FetchStreamId at_source = 0;
  Lane to_source;
  Lane to_sink;
  // Set when the network cuts the stream: messages on their way are lost.
  bool cut = false;
  // PlantedBug::kLeaseIgnored: the source's core believes that the reader has released its blocks, while the reader
  // gets answers as if it had not.
  bool muted = false;
};

class PrefillNode final : public WorkerNode {
 public:
  PrefillNode(Simulation& sim, RouterNode& router, const WorkerSetup& setup);

  void OpenPrefill(const std::shared_ptr<Call>& call, WorkerJob job, bool solo) override;
  void OpenDecode(const std::shared_ptr<Call>& call, WorkerJob job, const decode_worker::DecodeSource& source) override;

  // What the network delivers, in order for each stream.
  void OpenFetch(const std::shared_ptr<FetchStream>& stream, const kvtransfer::FetchOpen& open);
  void OnFetchRequest(const std::shared_ptr<FetchStream>& stream, const kvtransfer::FetchRequest& request);
  void OnFetchFinished(const std::shared_ptr<FetchStream>& stream);

  // UpdateSink.
  void Update(const JobKey& key, const WorkerUpdate& update) override;

  // FetchReplies.
  void Reply(kvtransfer::FetchStreamId stream, const kvtransfer::FetchReply& reply) override;
  void Close(kvtransfer::FetchStreamId stream, const absl::Status& status) override;

  void CheckQuiet() const override;

 private:
  void CancelJob(const JobKey& key) override;
  void CutStreams() override;

  prefill_worker::PrefillCore core_;
  // Jobs without a reader.
  std::set<JobKey> solo_;
  kvtransfer::FetchStreamId last_stream_ = 0;
  std::map<kvtransfer::FetchStreamId, std::shared_ptr<FetchStream>> streams_;
};

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_PREFILL_NODE_H_
