// The transfer thread of a simulated worker: the real sink, and reads that copy the peer's memory piece by piece, each
// at a moment of its own.
#ifndef BATON_SIMULATOR_PULLER_H_
#define BATON_SIMULATOR_PULLER_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "kvtransfer/kv_sink.h"
#include "simulator/fetch_server.h"
#include "simulator/loop_process.h"
#include "worker/kv_fetcher.h"

namespace baton::simulator {

// How a worker finds its peers.
class PeerDirectory {
 public:
  virtual ~PeerDirectory() = default;
  // The live process that listens there, or nullptr.
  virtual FetchServer* FindSource(const std::string& target) = 0;
  // The process with that transport address, even a dead one: its memory may still be mapped.
  virtual LoopProcess* FindMemory(const std::string& address) = 0;
};

class Puller final : public worker::KvFetcher {
 public:
  Puller(LoopProcess& process, PeerDirectory& directory);

  // From the loop to the transfer thread.
  void Start(const kvtransfer::FetchSpec& spec) override;
  void Cancel(const JobKey& key, const absl::Status& why) override;

  // What the network delivers, in order for each stream.
  void OnReply(kvtransfer::FetchStreamId stream, const kvtransfer::FetchReply& reply);
  void OnClosed(kvtransfer::FetchStreamId stream, const absl::Status& status);

  // A part of the network between this reader and a source fails: streams that are open feel it at once.
  void OnPairCut(const PairCut& cut);
  // The process's clock has leapt.
  void OnClockLeap() { ScheduleSinkTimer(); }
  // The process has died: the sources notice, each in its own time.
  void CutStreams();
  void CheckQuiet() const;

 private:
  // Sends to the stream's source; `handle` runs at its end, if it has one.
  void SendToSource(const std::shared_ptr<FetchStream>& stream, std::function<void(FetchServer&)> handle);
  // What was sent by one end while the pair is cut is lost.
  void Deafen(FetchStream& stream, const PairCut& cut);
  // The same stream is opened once more, behind the first one, and nobody listens to it.
  void OpenTwice(const std::shared_ptr<FetchStream>& stream, const kvtransfer::FetchOpen& open);
  // The network cuts a stream.
  void CutFetch(const std::shared_ptr<FetchStream>& stream);

  void RunSink(const Task& task);
  void ScheduleSinkTimer();
  void Handle(const kvtransfer::OpenStream& action);
  void Handle(const kvtransfer::SendRequest& action);
  void Handle(const kvtransfer::FinishStream& action);
  void Handle(const kvtransfer::ConnectPeer& action);
  void Handle(const kvtransfer::StartRead& action);
  void Handle(const kvtransfer::Committed& action);
  void Handle(const kvtransfer::FetchFailed& action);
  void Copy(LoopProcess& peer, const kvtransfer::CopyRange& range);

  LoopProcess& process_;
  Simulation& sim_;
  PeerDirectory& directory_;
  kvtransfer::KvSink sink_;
  std::map<kvtransfer::FetchStreamId, std::shared_ptr<FetchStream>> streams_;
  std::map<kvtransfer::PeerId, LoopProcess*> peers_;
  TimeNs next_sink_timer_ = kNever;
  int32_t reads_in_flight_ = 0;
};

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_PULLER_H_
