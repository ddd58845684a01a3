// The router's cores with the clients, the workers and the time that a fuzzer's input says. Every action is checked as
// it comes, whatever the workers say: each request that was taken ends once, with no more outputs than were asked for
// and one after the other; nothing grows beyond its bound; and nothing is left when the workers are gone. For fuzzers.
#ifndef BATON_ROUTER_TESTING_FUZZED_CLUSTER_H_
#define BATON_ROUTER_TESTING_FUZZED_CLUSTER_H_

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "common/check.h"
#include "common/random.h"
#include "common/testing/manual_clock.h"
#include "router/cluster_members.h"
#include "router/router_view.h"
#include "router/testing/fuzzed_worker.h"

namespace baton::router {

class FuzzedCluster {
 public:
  explicit FuzzedCluster(FuzzInput& input) : input_(input) {
    for (uint64_t number = 1; number <= kWorkers; ++number) workers_.emplace_back(input, number);
    options_.max_queued_jobs = 8;
    options_.max_running_jobs = 6;
    options_.max_moves = 2;
    options_.max_losses = 3;
    options_.placing.local_prefill_tokens = 8 * input_.Below(4);
    options_.placing.ttft_target_ms = 200 * input_.Below(2);
    dispatcher_ = std::make_unique<Dispatcher>(options_, clock_, random_);
  }

  void Run() {
    while (!input_.empty()) {
      Step();
      Settle();
    }
    EndAll();
  }

 private:
  static constexpr uint64_t kWorkers = 4;

  struct Client {
    std::shared_ptr<const JobSpec> job;
    std::vector<int32_t> outputs;
    uint32_t attempts = 0;
    bool has_last = false;
    // It ended its output by itself: a stop string.
    bool has_stopped = false;
  };

  void Step() {
    const int kind = input_.Below(16);
    FuzzedWorker& worker = workers_[static_cast<size_t>(input_.Below(kWorkers))];
    switch (kind) {
      case 0:
      case 1:
        return Submit();
      case 2:
        return Cancel();
      case 3:
        return Connect(worker);
      case 4:
        return Close(worker);
      case 5:
        return Say(worker, worker.Heartbeat());
      case 6:
        return Say(worker, worker.Lie());
      case 7:
        return input_.Rarely() ? Say(worker, worker.Fault()) : Say(worker, worker.Blocks());
      case 8:
        if (worker.stream() == nullptr) return OrderDrain();
        worker.stream()->worker_reads = !input_.Rarely();
        return;
      case 9:
      case 10:
        return Wait();
      default:
        return Say(worker, worker.Work());
    }
  }

  void Submit() {
    auto job = std::make_shared<JobSpec>();
    // No id is drawn twice, but a request may have two outputs.
    if (clients_.empty() || !input_.Rarely()) ++last_job_;
    job->id = {.high = 2, .low = last_job_};
    job->choice = static_cast<uint32_t>(input_.Rarely());
    job->prompt.assign(static_cast<size_t>(input_.Byte()) * (input_.Rarely() ? 40 : 1), 7);
    job->sampling.max_tokens = 1 + input_.Below(6);
    job->least_outputs = 1 + input_.Below(job->sampling.max_tokens);
    // Without a draw of its own, so that the corpus says what it said.
    if (last_job_ % 3 == 0) job->sampling.prompt_logprobs = 0;
    job->tenant = input_.Flag() ? "a" : "";
    job->priority = -input_.Below(1 - kMinPriority);
    job->want_kv_digest = input_.Rarely();
    if (input_.Rarely()) job->deadline = After(clock_.Now(), 10 * int64_t{input_.Byte()});
    const bool is_here = clients_.contains(job->key());
    // Words of a job that has ended would be taken for those of another one with its id.
    if (!is_here && !drawn_.insert(job->key()).second) return;
    const absl::Status taken = dispatcher_->Submit(job);
    BATON_CHECK(!taken.ok() || (!is_here && !job->prompt.empty())) << "a job is taken that may not be";
    if (taken.ok()) clients_[job->key()] = {.job = job, .outputs = {}};
  }

  void Cancel() {
    if (clients_.empty()) return;
    auto& [key, client] = *std::next(clients_.begin(), input_.Byte() % static_cast<int64_t>(clients_.size()));
    if (input_.Flag()) return dispatcher_->Cancel(key, absl::CancelledError("the client left"));
    client.has_stopped = true;
    dispatcher_->Cancel(key, absl::OkStatus());
  }

  void Connect(FuzzedWorker& worker) {
    // The old stream may stay open for a while.
    const std::shared_ptr<FuzzedStream> before = worker.stream();
    if (before != nullptr && input_.Flag()) {
      members_.OnClosed(*dispatcher_, *before);
      Settle();
    } else if (before != nullptr) {
      old_.push_back(before);
    }
    const internal::v1::WorkerMessage hello = worker.Hello();
    members_.OnMessage(*dispatcher_, worker.stream(), hello);
  }

  // Orders the drain of a worker that has joined, whether it drains already or not.
  void OrderDrain() {
    const auto& members = dispatcher_->registry().workers();
    if (members.empty()) return;
    dispatcher_->OrderDrain(members.begin()->second.info.incarnation.ToHex()).status().IgnoreError();
  }

  void Close(FuzzedWorker& worker) {
    if (!old_.empty()) {
      members_.OnClosed(*dispatcher_, *old_.front());
      old_.erase(old_.begin());
    } else if (worker.stream() != nullptr) {
      members_.OnClosed(*dispatcher_, *worker.stream());
      worker.stream()->is_ended = true;
    }
  }

  void Say(FuzzedWorker& worker, const internal::v1::WorkerMessage& message) {
    if (worker.stream() == nullptr) return;
    members_.OnMessage(*dispatcher_, worker.stream(), message);
  }

  void Wait() {
    const std::vector<ChoiceKey> paused(dispatcher_->paused().begin(), dispatcher_->paused().end());
    for (const ChoiceKey& key : paused) dispatcher_->Continue(key);
    const TimeNs until = After(clock_.Now(), int64_t{8} * input_.Byte());
    // A router that was paused finds all its timers due at once.
    if (input_.Rarely()) clock_.Set(until);
    RunTimers(until);
    clock_.Set(std::max(until, clock_.Now()));
    MakeView(*dispatcher_, clock_.Now(), 0);
    dispatcher_->TakeHealthNotes();
  }
  void RunTimers(TimeNs until) {
    while (dispatcher_->NextTimer() <= until) {
      clock_.Set(std::max(clock_.Now(), dispatcher_->NextTimer()));
      dispatcher_->OnTimer();
      BATON_CHECK(dispatcher_->NextTimer() > clock_.Now()) << "the loop would spin";
      Settle();
    }
  }

  // As the router's loop carries actions out: what it does may cause further ones.
  void Settle() {
    for (auto actions = dispatcher_->TakeActions(); !actions.empty(); actions = dispatcher_->TakeActions()) {
      for (const DispatchAction& action : actions) {
        std::visit([this](const auto& a) { Handle(a); }, action);
      }
    }
    for (FuzzedWorker& worker : workers_) worker.Read();
    CheckBounds();
  }

  void Handle(const StartPrefill& start) {
    CheckStart(start.key, *start.job);
    members_.Start(start);
  }
  void Handle(const StartDecode& start) {
    CheckStart(start.key, *start.job);
    members_.Start(start);
  }
  void Handle(const CancelAttempt& cancel) { members_.Cancel(cancel); }
  void Handle(const HandOverAttempt& move) { members_.Move(move); }
  void Handle(const EndMembership& end) { members_.End(end); }
  void Handle(const DrainWorker& drain) { members_.Drain(drain); }

  // An attempt goes on from the outputs so far: the client's prompt, and the first of them behind it. The job may have
  // ended behind the start.
  void CheckStart(const JobKey& key, const JobSpec& attempt) {
    const auto it = clients_.find(key.choice_key());
    if (it == clients_.end()) return;
    Client& client = it->second;
    BATON_CHECK(key.attempt >= client.attempts) << "attempt " << key.attempt;
    client.attempts = key.attempt;
    std::vector<int32_t> prompt = client.job->prompt;
    BATON_CHECK(attempt.emitted >= 0 && static_cast<size_t>(attempt.emitted) <= client.outputs.size());
    prompt.insert(prompt.end(), client.outputs.begin(), client.outputs.begin() + attempt.emitted);
    BATON_CHECK(attempt.prompt == prompt) << "the attempt does not go on where the outputs end";
    BATON_CHECK(attempt.emitted < client.job->sampling.max_tokens) << "nothing is left to compute";
  }

  void Handle(const EmitToken& emit) {
    Client& client = clients_.at(emit.key);
    BATON_CHECK(!client.has_last) << "an output behind the last one";
    BATON_CHECK(emit.token.index == static_cast<int32_t>(client.outputs.size())) << emit.token.index;
    BATON_CHECK(emit.token.index < client.job->sampling.max_tokens) << "more outputs than were asked for";
    const bool comes_with_prompt = emit.token.index == 0 && client.job->sampling.prompt_logprobs >= 0;
    BATON_CHECK((emit.prompt != nullptr) == comes_with_prompt) << "the prompt's log-probabilities";
    if (comes_with_prompt) BATON_CHECK(emit.prompt->size() + 1 == client.job->prompt.size()) << emit.prompt->size();
    client.outputs.push_back(emit.token.token);
    client.has_last = emit.token.is_last();
    // A client that does not read for a while.
    if (emit.token.token % 16 == 9) dispatcher_->Pause(emit.key);
    // A stop string, which the listener finds.
    if (emit.token.token % 16 != 5) return;
    client.has_stopped = true;
    dispatcher_->Cancel(emit.key, absl::OkStatus());
  }

  void Handle(const EndJob& end) {
    const Client client = clients_.at(end.key);
    clients_.erase(end.key);
    const JobResult& result = end.result;
    if (result.status.ok()) BATON_CHECK(client.has_last || client.has_stopped) << "a job ends well without its end";
    BATON_CHECK(result.output_tokens == static_cast<int32_t>(client.outputs.size())) << result.output_tokens;
    BATON_CHECK(result.prompt_tokens == static_cast<int32_t>(client.job->prompt.size())) << result.prompt_tokens;
    BATON_CHECK(result.cached_tokens >= 0 && result.cached_tokens <= result.looked_up_tokens) << result.cached_tokens;
    BATON_CHECK(result.given_up.size() <= kMaxKeptAttempts);
    const PhaseTimes& phases = result.phases;
    for (const int64_t ns :
         {phases.queue_ns, phases.admission_ns, phases.prefill_ns, phases.transfer_ns, phases.decode_ns}) {
      BATON_CHECK(ns >= 0 && ns <= clock_.Now()) << "a phase of " << ns << " ns";
    }
    for (const WorkerReport* report : {&result.prefill, &result.decode}) {
      BATON_CHECK(report->queue_ns >= 0 && report->compute_ns >= 0 && report->read_ns >= 0 && report->steps >= 0 &&
                  report->transfer_bytes >= 0)
          << "a report of less than nothing";
    }
  }

  void CheckBounds() {
    const Dispatcher& dispatcher = *dispatcher_;
    BATON_CHECK(dispatcher.running_jobs() <= options_.max_running_jobs);
    BATON_CHECK(dispatcher.queued_jobs() <= options_.max_queued_jobs + options_.max_running_jobs);
    BATON_CHECK(dispatcher.open_calls() <= 2 * options_.max_running_jobs + options_.max_moves);
    BATON_CHECK(dispatcher.paused_jobs() <= options_.max_running_jobs);
    BATON_CHECK(dispatcher.queued_jobs() + dispatcher.running_jobs() + dispatcher.paused_jobs() ==
                static_cast<int32_t>(clients_.size()));
    BATON_CHECK(dispatcher.registry().workers().size() <= workers_.size() + old_.size());
    int64_t jobs = 0;
    for (const auto& [id, assigned] : dispatcher.assigned()) {
      BATON_CHECK(dispatcher.registry().Find(id) != nullptr) << "a lost worker is remembered";
      BATON_CHECK(assigned.jobs >= 0 && assigned.reserved_blocks >= 0);
      BATON_CHECK(assigned.uncomputed_prompt_tokens >= 0) << assigned.uncomputed_prompt_tokens;
      BATON_CHECK(assigned.uncomputed_prompt_tokens <= assigned.jobs * kMostPromptTokens) << "more than was assigned";
      jobs += assigned.jobs;
    }
    BATON_CHECK(jobs == dispatcher.open_calls());
  }

  void EndAll() {
    for (const std::shared_ptr<FuzzedStream>& stream : old_) members_.OnClosed(*dispatcher_, *stream);
    old_.clear();
    for (FuzzedWorker& worker : workers_) Close(worker);
    Settle();
    BATON_CHECK(dispatcher_->registry().workers().empty()) << "a worker is left";
    BATON_CHECK(dispatcher_->open_calls() == 0 && dispatcher_->assigned().empty()) << "a call is left";
    constexpr int64_t kLongMs = 3'600'000;
    RunTimers(After(clock_.Now(), kLongMs));
    BATON_CHECK(clients_.empty()) << "a job is left";
    BATON_CHECK(dispatcher_->NextTimer() == kNever) << "a timer is left";
  }

  static constexpr int64_t kMostPromptTokens = 255 * 40 + 6;

  FuzzInput& input_;
  ManualClock clock_;
  SeededRandom random_{1};
  DispatcherOptions options_;
  std::unique_ptr<Dispatcher> dispatcher_;
  ClusterMembers members_{{.model = "tiny", .vocab_size = 64}, clock_, random_};
  std::vector<FuzzedWorker> workers_;
  // Streams that their workers have left, and that the router has not seen close.
  std::vector<std::shared_ptr<FuzzedStream>> old_;
  std::map<ChoiceKey, Client> clients_;
  std::set<ChoiceKey> drawn_;
  uint64_t last_job_ = 0;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_TESTING_FUZZED_CLUSTER_H_
