#include "kvtransfer/transfer_thread.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "common/limits.h"
#include "common/log.h"

namespace baton::kvtransfer {
namespace {

// The longest sleep. Idle connections are checked at least this often.
constexpr int64_t kMaxSleepNs = kNsPerSecond;

// Raises the thread above the kernel threads, so that a copy does not wait behind arithmetic. Where that is not
// permitted, transfers are slower but still right.
void RaisePriority() {
  constexpr int kNice = -5;
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice);
}

// Whether a read or a Fetch stream that ended so says that the peer may have ended.
bool PeerIsLost(const absl::Status& status) { return absl::IsUnavailable(status) || absl::IsNotFound(status); }

}  // namespace

TransferThread::TransferThread(Transport& transport, const KvSinkOptions& options, const Clock& clock,
                               const KvPool& pool, Callbacks callbacks)
    : transport_(transport),
      clock_(clock),
      callbacks_(std::move(callbacks)),
      commands_(kMaxMailboxEvents),
      stream_events_(kMaxMailboxEvents),
      sink_(options, clock, pool),
      peers_(transport, clock) {}

TransferThread::~TransferThread() { Stop(); }

void TransferThread::Launch(FetchChannel& channel) {
  BATON_CHECK(channel_ == nullptr);
  channel_ = &channel;
  thread_ = std::thread([this] { Run(); });
}

void TransferThread::Stop() {
  commands_.Close();
  stream_events_.Close();
  stopping_.store(true, std::memory_order_release);
  if (!thread_.joinable()) return;
  transport_.Wake();
  thread_.join();
}

void TransferThread::Start(FetchSpec spec) {
  const JobKey key = spec.key;
  if (commands_.Post(std::move(spec))) return transport_.Wake();
  // A worker has far fewer jobs than the mailbox has room.
  BATON_CHECK(commands_.closed()) << key.ToString();
  callbacks_.failed({.key = key, .status = absl::UnavailableError("the decode worker is stopping")});
}

void TransferThread::Cancel(const JobKey& key, const absl::Status& why) {
  if (commands_.Post(CancelCommand{key, why})) transport_.Wake();
}

void TransferThread::OnReply(FetchStreamId stream, const FetchReply& reply) {
  if (stream_events_.PostWhenRoom(ReplyEvent{stream, reply})) transport_.Wake();
}

void TransferThread::OnStreamClosed(FetchStreamId stream, const absl::Status& status) {
  if (stream_events_.PostWhenRoom(ClosedEvent{stream, status})) transport_.Wake();
}

void TransferThread::Run() {
  pthread_setname_np(pthread_self(), "baton-transfer");
  RaisePriority();
  while (!stopping_.load(std::memory_order_acquire)) RunOnce(kNever);
  RunToStop();
}

// Gives up every fetch, and waits until no read writes memory any more.
void TransferThread::RunToStop() {
  TakeMail();
  const std::vector<JobKey> jobs(jobs_.begin(), jobs_.end());
  for (const JobKey& key : jobs) sink_.Cancel(key, absl::UnavailableError("the decode worker is stopping"));
  Apply();
  for (int attempt = 0; attempt < 2 && sink_.open_jobs() > 0; ++attempt) {
    if (attempt == 1) peers_.DisconnectAll();
    const TimeNs until = clock_.Now() + kStopNs;
    while (sink_.open_jobs() > 0 && clock_.Now() < until) RunOnce(until);
  }
  if (sink_.open_jobs() > 0) spdlog::error("{} fetches were still being read at the end", sink_.open_jobs());
  peers_.DisconnectAll();
}

void TransferThread::RunOnce(TimeNs until) {
  TakeMail();
  TakeCompletions();
  if (sink_.NextTimer() <= clock_.Now()) sink_.OnTimer();
  Apply();
  peers_.Trim();
  const TimeNs now = clock_.Now();
  const TimeNs next = std::min({until, sink_.NextTimer(), now + kMaxSleepNs});
  transport_.WaitForEvent(std::max<int64_t>(0, next - now));
}

void TransferThread::TakeMail() {
  for (const Command& command : commands_.Take()) std::visit([this](const auto& c) { Handle(c); }, command);
  for (const StreamEvent& event : stream_events_.Take()) std::visit([this](const auto& e) { Handle(e); }, event);
}

void TransferThread::TakeCompletions() {
  completions_.clear();
  transport_.Poll(completions_);
  for (const ReadCompletion& completion : completions_) {
    const auto it = reads_.find(completion.read);
    if (it == reads_.end()) continue;
    const ReadInFlight read = it->second;
    reads_.erase(it);
    FinishRead(read, completion.status);
  }
}

void TransferThread::FinishRead(const ReadInFlight& read, const absl::Status& status) {
  if (PeerIsLost(status)) peers_.MarkLost(read.peer);
  sink_.OnReadDone(read.tag, status);
}

// Runs until no action is left, because one action may cause others.
void TransferThread::Apply() {
  for (auto actions = sink_.TakeActions(); !actions.empty(); actions = sink_.TakeActions()) {
    for (SinkAction& action : actions) std::visit([this](auto& a) { Handle(a); }, action);
  }
}

void TransferThread::Handle(const FetchSpec& spec) {
  jobs_.insert(spec.key);
  sink_.Start(spec);
}

void TransferThread::Handle(const ClosedEvent& event) {
  if (PeerIsLost(event.status)) peers_.MarkLostOf(event.stream);
  sink_.OnStreamClosed(event.stream, event.status);
}

void TransferThread::Handle(const OpenStream& action) { channel_->Open(action.stream, action.target, action.open); }

void TransferThread::Handle(const SendRequest& action) { channel_->Send(action.stream, action.request); }

void TransferThread::Handle(const FinishStream& action) {
  peers_.Release(action.stream);
  paths_.erase(action.stream);
  channel_->Finish(action.stream);
}

void TransferThread::Handle(const ConnectPeer& action) {
  const absl::StatusOr<PeerId> peer = peers_.Acquire(action.stream, action.address);
  if (peer.ok()) paths_[action.stream] = transport_.PathOf(*peer);
  sink_.OnConnected(action.stream, peer);
}

void TransferThread::Handle(const StartRead& action) {
  const absl::StatusOr<ReadId> read = transport_.StartRead(action.peer, action.fetch, action.ranges);
  if (read.ok()) {
    reads_[*read] = {action.tag, action.peer};
  } else {
    FinishRead({action.tag, action.peer}, read.status());
  }
}

void TransferThread::Handle(Committed& action) {
  jobs_.erase(action.key);
  if (const auto path = paths_.find(action.stream); path != paths_.end()) action.path = path->second;
  callbacks_.committed(action);
}

void TransferThread::Handle(FetchFailed& action) {
  jobs_.erase(action.key);
  if (const auto path = paths_.find(action.stream); path != paths_.end()) action.path = path->second;
  callbacks_.failed(action);
}

}  // namespace baton::kvtransfer
