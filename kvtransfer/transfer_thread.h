// The thread that moves KV. It owns the sink and makes all calls to the transport, so that neither the engine's loop
// nor gRPC's threads ever wait for a copy. A worker that only serves blocks runs one too: over a network, its readers'
// reads progress on it.
#ifndef BATON_KVTRANSFER_TRANSFER_THREAD_H_
#define BATON_KVTRANSFER_TRANSFER_THREAD_H_

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/mailbox.h"
#include "kvtransfer/fetch_messages.h"
#include "kvtransfer/kv_sink.h"
#include "kvtransfer/peer_cache.h"
#include "kvtransfer/transport.h"

namespace baton::kvtransfer {

// The Fetch streams that the transfer thread opens. Answers go to TransferThread::OnReply and OnStreamClosed, from any
// thread; the answers of one stream come in order.
class FetchChannel {
 public:
  virtual ~FetchChannel() = default;
  // None of these may block. Streams that are gone are ignored.
  virtual void Open(FetchStreamId stream, const std::string& target, const FetchOpen& open) = 0;
  virtual void Send(FetchStreamId stream, const FetchRequest& request) = 0;
  virtual void Finish(FetchStreamId stream) = 0;
};

class TransferThread {
 public:
  // Called on the transfer thread; must not block. After Stop, `failed` is called on the thread that calls Start.
  struct Callbacks {
    std::function<void(const Committed&)> committed;
    std::function<void(const FetchFailed&)> failed;
  };

  // How long Stop waits for reads in flight, twice: for them to end by themselves, and then after disconnecting.
  static constexpr int64_t kStopNs = 2 * kNsPerSecond;

  // `transport` has its region, `pool` is that region (or its first part); both outlive the thread.
  TransferThread(Transport& transport, const KvSinkOptions& options, const Clock& clock, const KvPool& pool,
                 Callbacks callbacks);
  ~TransferThread();
  TransferThread(const TransferThread&) = delete;
  TransferThread& operator=(const TransferThread&) = delete;

  // Once. `channel` outlives Stop.
  void Launch(FetchChannel& channel);
  // Ends all fetches and the thread; afterwards the transport may be used by another thread. Idempotent, for the thread
  // that called Launch. Takes at most 2 * kStopNs, and normally as long as one read.
  void Stop();

  // Any thread. Each Start is answered by one committed or failed.
  void Start(FetchSpec spec);
  void Cancel(const JobKey& key, const absl::Status& why);
  // Any thread but the engine's loop: these calls wait when the transfer thread is far behind. Ignored after Stop.
  void OnReply(FetchStreamId stream, const FetchReply& reply);
  void OnStreamClosed(FetchStreamId stream, const absl::Status& status);

 private:
  struct CancelCommand {
    JobKey key;
    absl::Status why;
  };
  struct ReplyEvent {
    FetchStreamId stream = 0;
    FetchReply reply;
  };
  struct ClosedEvent {
    FetchStreamId stream = 0;
    absl::Status status;
  };
  using Command = std::variant<FetchSpec, CancelCommand>;
  using StreamEvent = std::variant<ReplyEvent, ClosedEvent>;
  struct ReadInFlight {
    uint64_t tag = 0;
    PeerId peer = 0;
  };

  void Run();
  void RunToStop();
  // One round of the loop. Waits until `until` at most.
  void RunOnce(TimeNs until);
  void TakeMail();
  void TakeCompletions();
  void FinishRead(const ReadInFlight& read, const absl::Status& status);
  void Apply();
  void Handle(const FetchSpec& spec);
  void Handle(const CancelCommand& cancel) { sink_.Cancel(cancel.key, cancel.why); }
  void Handle(const ReplyEvent& event) { sink_.OnReply(event.stream, event.reply); }
  void Handle(const ClosedEvent& event);
  void Handle(const OpenStream& action);
  void Handle(const SendRequest& action);
  void Handle(const FinishStream& action);
  void Handle(const ConnectPeer& action);
  void Handle(const StartRead& action);
  void Handle(Committed& action);
  void Handle(FetchFailed& action);

  Transport& transport_;
  const Clock& clock_;
  const Callbacks callbacks_;
  Mailbox<Command> commands_;
  Mailbox<StreamEvent> stream_events_;
  std::atomic<bool> stopping_ = false;

  // These belong to the transfer thread alone.
  KvSink sink_;
  PeerCache peers_;
  FetchChannel* channel_ = nullptr;
  absl::flat_hash_map<ReadId, ReadInFlight> reads_;
  absl::flat_hash_set<JobKey> jobs_;
  // How the blocks of each connected stream come. A peer that is lost has no path any more.
  absl::flat_hash_map<FetchStreamId, std::string> paths_;
  std::vector<ReadCompletion> completions_;

  std::thread thread_;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TRANSFER_THREAD_H_
