#include "worker/worker_metrics.h"

#include <functional>
#include <utility>

#include "common/check.h"

namespace baton::worker {
namespace {

using prometheus::Counter;
using prometheus::Histogram;
using telemetry::BoundedFamily;

double Seconds(int64_t ns) { return static_cast<double>(ns) / kNsPerSecond; }

prometheus::Labels With(prometheus::Labels labels, const char* name, const char* value) {
  labels[name] = value;
  return labels;
}

const char* FaultName(kvtransfer::FetchFault fault) {
  switch (fault) {
    case kvtransfer::FetchFault::kSource:
      return "source";
    case kvtransfer::FetchFault::kRead:
      return "read";
    case kvtransfer::FetchFault::kDigest:
      return "digest";
    case kvtransfer::FetchFault::kLease:
      return "lease";
    case kvtransfer::FetchFault::kOther:
      break;
  }
  return "other";
}

void AddToCounter(BoundedFamily<Counter>& family, absl::Span<const std::string_view> labels, double value) {
  family.Update(labels, [value](Counter& counter) { counter.Increment(value); });
}

// Nothing was read, so nobody knows the way.
const char* PathName(const std::string& path) { return path.empty() ? "none" : path.c_str(); }

}  // namespace

WorkerMetrics::WorkerMetrics(const WorkerMetricsOptions& options, const Clock& clock)
    : role_({{"role", options.role}}),
      clock_(clock),
      registry_(std::make_shared<prometheus::Registry>()),
      current_(std::make_shared<telemetry::CallbackMetrics>()),
      board_(std::make_shared<Board>()) {
  AddStepMetrics();
  AddCurrentMetrics(options);
  if (!options.pulls) return;
  const std::vector<std::string> way = {"source", "transport"};
  const telemetry::SetBounds bounds = {.max_sets = kMaxTransferSources, .clock = clock_};
  const auto bounded = [&bounds](CounterFamily& family, std::vector<std::string> names) {
    return std::make_unique<BoundedFamily<Counter>>(family, std::move(names), bounds);
  };
  transfers_ = bounded(AddCounters("baton_transfers_total", "Prompts whose KV was pulled and verified."), way);
  transfer_bytes_ = bounded(AddCounters("baton_transfer_bytes_total", "KV bytes that were pulled and verified."), way);
  early_bytes_ = bounded(AddCounters("baton_transfer_early_bytes_total",
                                     "Those of them that were read before their blocks were complete."),
                         way);
  read_seconds_ = bounded(AddCounters("baton_transfer_read_seconds_total",
                                      "Time in which blocks of a prompt were read, added over prompts."),
                          way);
  damaged_blocks_ = bounded(
      AddCounters("baton_transfer_damaged_blocks_total", "Blocks that differed from their digest and were read again."),
      way);
  failures_ = bounded(AddCounters("baton_transfer_failures_total", "Pulls that failed, by the reason."),
                      {"source", "transport", "reason"});
  auto& seconds = prometheus::BuildHistogram()
                      .Name("baton_transfer_seconds")
                      .Help("Time in which the blocks of a prompt were read.")
                      .Labels(role_)
                      .Register(*registry_);
  transfer_seconds_ = std::make_unique<BoundedFamily<Histogram>>(seconds, std::vector<std::string>{"transport"}, bounds,
                                                                 telemetry::PhaseBuckets());
}

WorkerMetrics::CounterFamily& WorkerMetrics::AddCounters(const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Labels(role_).Register(*registry_);
}

void WorkerMetrics::AddStepMetrics() {
  auto& steps = AddCounters("baton_engine_steps_total", "Steps of the engine, by what they computed.");
  auto& seconds = prometheus::BuildHistogram()
                      .Name("baton_engine_step_seconds")
                      .Help("Time of a step, without its wait for the cores.")
                      .Labels(role_)
                      .Register(*registry_);
  const std::array<const char*, kStepKinds> kinds = {"prefill", "decode", "mixed"};
  for (size_t kind = 0; kind < kStepKinds; ++kind) {
    steps_[kind] = &steps.Add({{"kind", kinds[kind]}});
    step_seconds_[kind] = &seconds.Add({{"kind", kinds[kind]}}, telemetry::EngineStepBuckets());
  }
  batch_sequences_ = &prometheus::BuildHistogram()
                          .Name("baton_engine_batch_sequences")
                          .Help("Sequences in a step.")
                          .Labels(role_)
                          .Register(*registry_)
                          .Add({}, telemetry::CountBuckets());
}

void WorkerMetrics::AddCurrentMetrics(const WorkerMetricsOptions& options) {
  const auto read = [board = board_](auto value) {
    return [board, value]() -> double {
      absl::MutexLock lock(&board->mutex);
      return static_cast<double>(value(board->snapshot));
    };
  };
  const auto gauge = [&](const char* name, const char* help, auto value) {
    current_->AddGauge(name, help, read(value), role_);
  };
  const auto counter = [&](const char* name, const char* help, auto value) {
    current_->AddCounter(name, help, read(value), role_);
  };
  const auto by = [&](const char* name, const char* help, bool counts, const char* label,
                      std::vector<std::pair<const char*, std::function<double(const Snapshot&)>>> values) {
    const auto samples = [board = board_, role = role_, label, values = std::move(values)] {
      std::vector<telemetry::CallbackMetrics::Sample> all;
      absl::MutexLock lock(&board->mutex);
      for (const auto& [value, of] : values) all.push_back({With(role, label, value), of(board->snapshot)});
      return all;
    };
    counts ? current_->AddCounters(name, help, samples) : current_->AddGauges(name, help, samples);
  };
  by("baton_kv_blocks", "Blocks of the KV pool, by what holds them.", false, "state",
     {{"used", [](const Snapshot& s) { return s.load.used_blocks; }},
      {"free", [](const Snapshot& s) { return s.load.free_blocks; }},
      {"cached", [](const Snapshot& s) { return s.load.cached_blocks; }}});
  by("baton_engine_sequences", "Sequences that run, that gave their blocks up, and that wait to be computed.", false,
     "state",
     {{"running", [](const Snapshot& s) { return s.load.running; }},
      {"preempted", [](const Snapshot& s) { return s.load.preempted; }},
      {"waiting", [](const Snapshot& s) { return s.load.waiting; }}});
  by("baton_engine_rows_total", "Rows that the engine has computed, by their class.", true, "class",
     {{"prefill", [](const Snapshot& s) { return static_cast<double>(s.engine.prefill_rows); }},
      {"decode", [](const Snapshot& s) { return static_cast<double>(s.engine.decode_rows); }}});
  gauge("baton_pending_prompt_tokens", "Prompt tokens that are accepted and not computed yet.",
        [](const Snapshot& s) { return s.load.pending_prompt_tokens; });
  gauge("baton_orphaned_blocks", "Used blocks that belong to no request, lease or reservation. Always 0.",
        [](const Snapshot& s) { return s.orphaned_blocks; });
  gauge("baton_kv_block_bytes", "Bytes of a KV block.",
        [bytes = options.block_bytes](const Snapshot&) { return bytes; });
  counter("baton_preemptions_total", "Sequences that gave their blocks up for an older one.",
          [](const Snapshot& s) { return s.engine.preemptions; });
  counter("baton_prefix_cache_queries_total", "Prompt tokens that were looked up in the prefix cache.",
          [](const Snapshot& s) { return s.engine.prefix_queried_tokens; });
  counter("baton_prefix_cache_hits_total", "Prompt tokens that the prefix cache had.",
          [](const Snapshot& s) { return s.engine.prefix_hit_tokens; });
  counter("baton_core_yields_total", "How often a step let another worker have the shared cores.",
          [](const Snapshot& s) { return s.core_yields; });
  counter("baton_core_grants_total", "How often the worker got the cores that workers share.",
          [](const Snapshot& s) { return s.core_grants; });
  counter("baton_core_wait_seconds_total", "Time that the worker waited for shared cores.",
          [](const Snapshot& s) { return Seconds(s.core_wait_ns); });
}

void WorkerMetrics::OnRound(WorkerCore& core, const WorkerLoad& load, const engine::StepGate* gate) {
  Snapshot now = {.load = load, .engine = core.engine().Counters()};
  if (gate != nullptr) {
    now.core_yields = gate->yield_count();
    now.core_grants = gate->grant_count();
    now.core_wait_ns = gate->wait_ns();
  }
  if (const engine::StepTimes& step = core.loop().last_step(); step.number != seen_step_) {
    ObserveStep(step, now.engine);
  }
  if (clock_.Now() >= next_orphan_check_) {
    orphaned_blocks_ = core.OrphanedBlocks();
    next_orphan_check_ = After(clock_.Now(), kOrphanCheckMs);
  }
  now.orphaned_blocks = orphaned_blocks_;
  absl::MutexLock lock(&board_->mutex);
  board_->snapshot = now;
}

void WorkerMetrics::ObserveStep(const engine::StepTimes& step, const engine::EngineCounters& counters) {
  const bool prefilled = counters.prefill_rows > seen_.prefill_rows;
  const bool decoded = counters.decode_rows > seen_.decode_rows;
  const StepKind kind = prefilled && decoded ? kMixedStep : prefilled ? kPrefillStep : kDecodeStep;
  steps_[kind]->Increment();
  step_seconds_[kind]->Observe(Seconds(step.compute_ns));
  batch_sequences_->Observe(static_cast<double>(counters.step_sequences - seen_.step_sequences));
  seen_step_ = step.number;
  seen_ = counters;
}

void WorkerMetrics::OnCommitted(const kvtransfer::Committed& committed) {
  BATON_CHECK(transfers_ != nullptr) << "a worker that does not pull";
  const std::array<std::string_view, 2> way = {committed.source_target, PathName(committed.path)};
  AddToCounter(*transfers_, way, 1);
  AddToCounter(*transfer_bytes_, way, static_cast<double>(committed.bytes));
  AddToCounter(*early_bytes_, way, static_cast<double>(committed.early_bytes));
  AddToCounter(*read_seconds_, way, Seconds(committed.read_ns));
  AddToCounter(*damaged_blocks_, way, committed.damaged_blocks);
  transfer_seconds_->Update({way[1]}, [&](Histogram& seconds) { seconds.Observe(Seconds(committed.read_ns)); });
}

void WorkerMetrics::OnFetchFailed(const kvtransfer::FetchFailed& failed) {
  // A client that left says nothing of the transfer.
  if (absl::IsCancelled(failed.status)) return;
  const std::array<std::string_view, 3> way = {failed.source_target, PathName(failed.path), FaultName(failed.fault)};
  AddToCounter(*failures_, way, 1);
  AddToCounter(*damaged_blocks_, {way[0], way[1]}, failed.damaged_blocks);
}

}  // namespace baton::worker
