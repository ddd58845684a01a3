// A simulated decode worker: the real decode core and sink, and a transfer thread whose reads copy the peer's memory
// piece by piece, each at a moment of its own.
#ifndef BATON_SIMULATOR_DECODE_NODE_H_
#define BATON_SIMULATOR_DECODE_NODE_H_

#include <map>
#include <memory>
#include <set>
#include <string>

#include "decode_worker/decode_core.h"
#include "kvtransfer/kv_sink.h"
#include "simulator/prefill_node.h"
#include "simulator/worker_node.h"

namespace baton::simulator {

// How a decode worker finds its peers.
class PeerDirectory {
 public:
  virtual ~PeerDirectory() = default;
  // The live process that listens there, or nullptr.
  virtual PrefillNode* FindPrefill(const std::string& target) = 0;
  // The process with that transport address, even a dead one: its memory may still be mapped.
  virtual PrefillNode* FindMemory(const std::string& address) = 0;
};

class DecodeNode final : public WorkerNode, public FetchListener {
 public:
  DecodeNode(Simulation& sim, RouterNode& router, PeerDirectory& directory, const WorkerSetup& setup);

  void OpenPrefill(const std::shared_ptr<Call>& call, WorkerJob job, bool solo) override;
  void OpenDecode(const std::shared_ptr<Call>& call, WorkerJob job, const decode_worker::DecodeSource& source) override;

  // KvFetcher: from the loop to the transfer thread.
  void Start(const kvtransfer::FetchSpec& spec) override;
  void Cancel(const JobKey& key, const absl::Status& why) override;

  // FetchListener: what the network delivers, in order for each stream.
  void OnReply(kvtransfer::FetchStreamId stream, const kvtransfer::FetchReply& reply) override;
  void OnClosed(kvtransfer::FetchStreamId stream, const absl::Status& status) override;

  void CheckQuiet() const override;

 private:
  void CancelJob(const JobKey& key) override;
  void CutStreams() override;

  // The network cuts a stream.
  void CutFetch(const std::shared_ptr<FetchStream>& stream);

  // The transfer thread.
  void RunSink(const Task& task);
  void ScheduleSinkTimer();
  void Handle(const kvtransfer::OpenStream& action);
  void Handle(const kvtransfer::SendRequest& action);
  void Handle(const kvtransfer::FinishStream& action);
  void Handle(const kvtransfer::ConnectPeer& action);
  void Handle(const kvtransfer::StartRead& action);
  void Handle(const kvtransfer::Committed& action);
  void Handle(const kvtransfer::FetchFailed& action);
  void Copy(PrefillNode& peer, const kvtransfer::CopyRange& range);

  PeerDirectory& directory_;
  kvtransfer::KvSink sink_;
  decode_worker::DecodeCore core_;
  std::map<kvtransfer::FetchStreamId, std::shared_ptr<FetchStream>> streams_;
  std::map<kvtransfer::PeerId, PrefillNode*> peers_;
  TimeNs next_sink_timer_ = kNever;
  int32_t reads_in_flight_ = 0;
  // PlantedBug::kFreedTwice: fetches whose blocks the loop has given up already.
  std::set<JobKey> freed_early_;
};

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_DECODE_NODE_H_
