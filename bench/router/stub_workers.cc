#include "bench/router/stub_workers.h"

#include <grpcpp/grpcpp.h>

#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "baton/internal/v1/worker.grpc.pb.h"
#include "common/kv_layout.h"
#include "common/limits.h"
#include "common/random.h"
#include "common/rpc/channel_cache.h"
#include "common/rpc/client_stream.h"
#include "common/rpc/protocol.h"
#include "common/rpc/wire.h"
#include "common/status.h"

namespace baton::bench {
namespace pb = internal::v1;
namespace {

constexpr absl::Duration kJoinTimeout = absl::Seconds(30);
// The router refuses workers that come while too many others have yet to say hello.
constexpr size_t kJoinsAtOnce = kMaxJoiningStreams / 2;
constexpr int64_t kHeartbeatNs = 100 * kNsPerMs;
constexpr int32_t kContextTokens = 8192;

// What calls hold that fill their context.
int32_t BlocksOf(int32_t calls) { return calls * kContextTokens / kBlockTokens; }

}  // namespace

// One membership, for as long as it lasts: a stub that the router gives up stays away.
class StubWorker {
 public:
  StubWorker(const StubWorkerOptions& options, int number, TokenClock& token_clock)
      : options_(options),
        number_(number),
        token_clock_(token_clock),
        stub_(pb::ClusterService::NewStub(grpc::CreateCustomChannel(
            options.cluster_target, grpc::InsecureChannelCredentials(), rpc::ChannelArguments()))) {}
  ~StubWorker() {
    if (stream_ == nullptr) return;
    stream_->Cancel();
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&done_));
  }

  void Join() {
    stream_ =
        Stream::Create([this](grpc::ClientContext* context, auto* reactor) { stub_->async()->Join(context, reactor); },
                       {.on_message = [this](const pb::RouterMessage& message) { OnMessage(message); },
                        .on_done =
                            [this](const grpc::Status& status) {
                              absl::MutexLock lock(&mutex_);
                              status_ = status;
                              done_ = true;
                            }});
    pb::WorkerMessage message;
    *message.mutable_hello() = Hello();
    stream_->Push(std::move(message));
  }

  absl::Status AwaitJoined() {
    absl::MutexLock lock(&mutex_);
    const auto settled = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return done_ || !membership_.empty(); };
    mutex_.AwaitWithTimeout(absl::Condition(&settled), kJoinTimeout);
    if (!membership_.empty()) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat("a stub worker could not join the router at ", options_.cluster_target,
                                               ": ", status_.error_message()));
  }

  // The next token of every call, and the load when it is due.
  void Step(TimeNs now) {
    absl::MutexLock lock(&mutex_);
    if (membership_.empty() || done_) return;
    pb::WorkerMessage message;
    message.set_membership(membership_);
    for (auto it = calls_.begin(); it != calls_.end();) {
      AddToken(it->first, it->second, now, message);
      it = it->second.next == it->second.max_tokens ? calls_.erase(it) : std::next(it);
    }
    AddLoad(now, message);
    // Under the lock, so that no token of a call is sent after its end.
    if (message.has_load() || message.tokens_size() > 0) stream_->Push(std::move(message));
  }

 private:
  using Stream = rpc::ClientBidi<pb::WorkerMessage, pb::RouterMessage>;

  struct Call {
    uint64_t stream = 0;
    int32_t max_tokens = 0;
    int32_t next = 0;
  };

  pb::Hello Hello() const {
    pb::Hello hello;
    hello.set_protocol_version(rpc::kProtocolVersion);
    hello.set_incarnation(rpc::ToBytes(SystemRandom().NextId()));
    hello.set_role(pb::WORKER_ROLE_MIXED);
    // Nobody calls a stub worker.
    hello.set_target(absl::StrCat("stub:", number_));
    hello.set_model(options_.model);
    hello.set_fingerprint("stub");
    hello.set_total_blocks(BlocksOf(options_.streams_per_worker));
    hello.set_max_sequences(options_.streams_per_worker);
    hello.set_chunk_tokens(512);
    hello.set_context_length(kContextTokens);
    hello.set_full_groups(1);
    return hello;
  }

  void OnMessage(const pb::RouterMessage& message) {
    absl::MutexLock lock(&mutex_);
    if (message.has_accepted()) membership_ = message.accepted().membership();
    pb::WorkerMessage answer;
    answer.set_membership(membership_);
    for (const pb::CallStart& start : message.starts()) {
      calls_[start.call()] = {.stream = start.job().sampling().seed(),
                              .max_tokens = start.job().sampling().max_tokens()};
      answer.add_started()->set_call(start.call());
    }
    for (const uint64_t call : message.cancels()) {
      if (calls_.erase(call) == 0) continue;
      pb::CallEnded* ended = answer.add_ended();
      ended->set_call(call);
      ended->set_code(grpc::StatusCode::CANCELLED);
    }
    if (answer.started_size() + answer.ended_size() > 0) stream_->Push(std::move(answer));
  }

  void AddToken(uint64_t number, Call& call, TimeNs now, pb::WorkerMessage& message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    token_clock_.OnSent(call.stream, call.next, now);
    pb::CallToken* token = message.add_tokens();
    token->set_call(number);
    token->set_index(call.next++);
    token->set_id(kTokenId);
    if (call.next < call.max_tokens) return;
    token->set_finish(pb::FINISH_LENGTH);
    message.add_finished()->set_call(number);
    message.add_ended()->set_call(number);
  }

  void AddLoad(TimeNs now, pb::WorkerMessage& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (now < next_load_) return;
    next_load_ = now + kHeartbeatNs;
    pb::Load* load = message.mutable_load();
    const int32_t used = BlocksOf(static_cast<int32_t>(calls_.size()));
    load->set_free_blocks(BlocksOf(options_.streams_per_worker) - used);
    load->set_used_blocks(used);
    load->set_running(static_cast<int32_t>(calls_.size()));
  }

  // Any token will do; this one is a letter in most vocabularies.
  static constexpr int32_t kTokenId = 100;

  const StubWorkerOptions& options_;
  const int number_;
  TokenClock& token_clock_;
  const std::unique_ptr<pb::ClusterService::Stub> stub_;
  std::shared_ptr<Stream> stream_;
  absl::Mutex mutex_;
  std::string membership_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, Call> calls_ ABSL_GUARDED_BY(mutex_);
  TimeNs next_load_ ABSL_GUARDED_BY(mutex_) = 0;
  grpc::Status status_ ABSL_GUARDED_BY(mutex_);
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
};

StubWorkers::StubWorkers(const StubWorkerOptions& options, TokenClock& token_clock) : options_(options) {
  for (int i = 0; i < options.workers; ++i) {
    workers_.push_back(std::make_unique<StubWorker>(options_, i, token_clock));
  }
}

StubWorkers::~StubWorkers() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

absl::Status StubWorkers::Start() {
  thread_ = std::thread([this] { Run(); });
  for (size_t first = 0; first < workers_.size(); first += kJoinsAtOnce) {
    const auto some = absl::MakeSpan(workers_).subspan(first, kJoinsAtOnce);
    for (const auto& worker : some) worker->Join();
    for (const auto& worker : some) BATON_RETURN_IF_ERROR(worker->AwaitJoined());
  }
  return absl::OkStatus();
}

// A worker heartbeats with its steps, so a step without a call still sends its load.
void StubWorkers::Run() {
  const Clock& clock = MonotonicClock();
  const TimeNs begin = clock.Now();
  for (int64_t step = 0; !stopping_; ++step) {
    const TimeNs due = begin + step * options_.step_ns / static_cast<int64_t>(workers_.size());
    if (const TimeNs now = clock.Now(); due > now) absl::SleepFor(absl::Nanoseconds(due - now));
    workers_[static_cast<size_t>(step) % workers_.size()]->Step(clock.Now());
  }
}

}  // namespace baton::bench
