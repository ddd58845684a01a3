#include "router/router_metrics.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/kv_layout.h"

namespace baton::router {
namespace {

using telemetry::CallbackMetrics;
using Samples = std::vector<CallbackMetrics::Sample>;

double KvUsage(const RouterView& view) {
  int64_t used = 0;
  int64_t total = 0;
  for (const WorkerView& worker : view.workers) {
    if (!worker.decodes()) continue;
    used += worker.load.used_blocks;
    total += worker.total_blocks;
  }
  return total == 0 ? 0 : static_cast<double>(used) / static_cast<double>(total);
}

int64_t DecodeBlocks(const RouterView& view) {
  int64_t total = 0;
  for (const WorkerView& worker : view.workers) total += worker.decodes() ? worker.total_blocks : 0;
  return total;
}

const char* StateName(WorkerState state) { return state == WorkerState::kServing ? "serving" : "draining"; }

Samples CountWorkers(const RouterView& view) {
  Samples samples;
  for (const WorkerRole role : kWorkerRoles) {
    for (const WorkerState state : {WorkerState::kServing, WorkerState::kDraining}) {
      const auto count = std::count_if(view.workers.begin(), view.workers.end(), [&](const WorkerView& worker) {
        return worker.role == role && worker.load.state == state;
      });
      samples.push_back({{{"role", RoleName(role)}, {"state", StateName(state)}}, static_cast<double>(count)});
    }
  }
  return samples;
}

Samples CountBlocks(const RouterView& view) {
  Samples samples;
  for (const WorkerView& worker : view.workers) {
    const std::pair<const char*, int32_t> states[] = {
        {"used", worker.load.used_blocks}, {"free", worker.load.free_blocks}, {"cached", worker.load.cached_blocks}};
    for (const auto& [state, blocks] : states) {
      samples.push_back({{{"worker", worker.address}, {"role", RoleName(worker.role)}, {"state", state}},
                         static_cast<double>(blocks)});
    }
  }
  return samples;
}

Samples CountRunning(const RouterView& view) {
  Samples samples;
  for (const WorkerView& worker : view.workers) {
    samples.push_back(
        {{{"worker", worker.address}, {"role", RoleName(worker.role)}}, static_cast<double>(worker.load.running)});
  }
  return samples;
}

Samples CountOrphans(const RouterView& view) {
  Samples samples;
  for (const WorkerView& worker : view.workers) {
    samples.push_back(
        {{{"worker", worker.address}, {"role", RoleName(worker.role)}}, static_cast<double>(worker.orphaned_blocks)});
  }
  return samples;
}

Samples CountJoins(const RouterView& view) {
  Samples samples;
  for (const WorkerRole role : kWorkerRoles) {
    const int64_t joins = view.memberships.joins[static_cast<size_t>(role)];
    samples.push_back({{{"role", RoleName(role)}}, static_cast<double>(joins)});
  }
  return samples;
}

Samples CountLosses(const RouterView& view) {
  Samples samples;
  for (const WorkerRole role : kWorkerRoles) {
    for (const LossReason reason : kLossReasons) {
      const int64_t losses = view.memberships.losses[static_cast<size_t>(role)][static_cast<size_t>(reason)];
      samples.push_back({{{"role", RoleName(role)}, {"reason", LossReasonName(reason)}}, static_cast<double>(losses)});
    }
  }
  return samples;
}

Samples ShowEjected(const RouterView& view) {
  Samples samples;
  for (const WorkerView& worker : view.workers) {
    samples.push_back({{{"worker", worker.address}, {"role", RoleName(worker.role)}}, worker.ejected ? 1.0 : 0.0});
  }
  return samples;
}

Samples CountEjections(const RouterView& view) {
  Samples samples;
  for (const WorkerRole role : kWorkerRoles) {
    samples.push_back({{{"role", RoleName(role)}}, static_cast<double>(view.ejections[static_cast<size_t>(role)])});
  }
  return samples;
}

Samples CountCanaries(const RouterView& view) {
  Samples samples;
  for (const CanaryOutcome outcome : kCanaryOutcomes) {
    samples.push_back(
        {{{"outcome", OutcomeName(outcome)}}, static_cast<double>(view.canaries[static_cast<size_t>(outcome)])});
  }
  return samples;
}

// `read` of the latest view.
template <typename Read>
auto OfView(const ViewBoard& views, Read read) {
  return [&views, read] { return read(*views.Latest()); };
}

void AddLine(const RouterMetricsSources& sources, CallbackMetrics& metrics) {
  const prometheus::Labels model = {{"model_name", sources.model}};
  const ViewBoard& views = sources.views;
  metrics.AddGauge("vllm:num_requests_running", "Requests that were placed on workers and have not ended.",
                   OfView(views, [](const RouterView& view) -> double { return view.running_jobs; }), model);
  metrics.AddGauge("vllm:num_requests_waiting", "Requests that wait for workers.",
                   OfView(views, [](const RouterView& view) -> double { return view.queued_jobs; }), model);
  metrics.AddGauge("vllm:kv_cache_usage_perc",
                   "Used KV blocks over all blocks of the workers that decode, from 0 to 1.", OfView(views, KvUsage),
                   model);
  metrics.AddGauges("vllm:cache_config_info", "The KV cache of the workers that decode; the value is always 1.",
                    OfView(views, [model](const RouterView& view) {
                      prometheus::Labels labels = model;
                      labels["block_size"] = absl::StrCat(kBlockTokens);
                      labels["num_gpu_blocks"] = absl::StrCat(DecodeBlocks(view));
                      return Samples{{std::move(labels), 1}};
                    }));
}

void AddWorkers(const ViewBoard& views, CallbackMetrics& metrics) {
  metrics.AddGauge("baton_serving", "Whether some group of workers can serve a request: 1 or 0.",
                   OfView(views, [](const RouterView& view) -> double { return view.serving ? 1 : 0; }));
  metrics.AddGauges("baton_workers", "Workers that are members, by role and state.", OfView(views, CountWorkers));
  metrics.AddGauges("baton_worker_kv_blocks", "KV blocks of each worker, as its last heartbeat said.",
                    OfView(views, CountBlocks));
  metrics.AddGauges("baton_worker_running", "Sequences that run at each worker, as its last heartbeat said.",
                    OfView(views, CountRunning));
  metrics.AddGauges("baton_worker_orphaned_blocks",
                    "KV blocks that each worker holds for no open call, beyond what the hand-off allows. Always 0.",
                    OfView(views, CountOrphans));
  metrics.AddGauges("baton_worker_ejected", "Whether a worker is so slow that it gets only trials: 1 or 0.",
                    OfView(views, ShowEjected));
  metrics.AddCounters("baton_worker_ejections_total", "Workers that were found much slower than their peers.",
                      OfView(views, CountEjections));
  metrics.AddGauge("baton_bad_pairs", "Pairs of workers whose last hand-off failed.",
                   OfView(views, [](const RouterView& view) { return static_cast<double>(view.bad_pairs); }));
  metrics.AddCounters("baton_canary_total", "Requests of the router's own that tried a pair of workers.",
                      OfView(views, CountCanaries));
  metrics.AddCounters("baton_worker_joins_total", "Workers that joined.", OfView(views, CountJoins));
  metrics.AddCounters("baton_worker_losses_total", "Workers that are no members any more, by the reason.",
                      OfView(views, CountLosses));
  metrics.AddCounter(
      "baton_workers_refused_total", "Workers that asked to join and were refused.",
      OfView(views, [](const RouterView& view) -> double { return static_cast<double>(view.memberships.refused); }));
}

void AddClients(const RouterMetricsSources& sources, CallbackMetrics& metrics) {
  metrics.AddGauge("baton_client_connections", "Connections of clients that are open.", sources.connections);
  metrics.AddGauge("baton_client_streams", "Streams of clients that are open.", [all = sources.unread] {
    size_t streams = 0;
    for (const UnreadOutput* unread : all) streams += unread->stream_count();
    return static_cast<double>(streams);
  });
  metrics.AddGauge("baton_paused_requests", "Requests that wait for clients which do not read their outputs.",
                   OfView(sources.views, [](const RouterView& view) -> double { return view.paused_jobs; }));
  metrics.AddGauge("baton_unread_output_bytes", "Output that clients have not read yet.", [all = sources.unread] {
    int64_t bytes = 0;
    for (const UnreadOutput* unread : all) bytes += unread->total_bytes();
    return static_cast<double>(bytes);
  });
  metrics.AddGauges("baton_client_work_queued_bytes", "Requests that wait to be parsed and tokenized.",
                    [&work = sources.work] {
                      return Samples{{{{"lane", "small"}}, static_cast<double>(work.queued_small_bytes())},
                                     {{{"lane", "large"}}, static_cast<double>(work.queued_large_bytes())}};
                    });
}

void AddKeptJobs(const KeptJobs& kept, CallbackMetrics& metrics) {
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  metrics.AddGauges("baton_journal_jobs", "Jobs that outlive their clients' calls.", [&kept, number] {
    const LiveJobCounts counts = kept.counts();
    return Samples{{{{"state", "running"}}, number(counts.running)}, {{{"state", "ended"}}, number(counts.ended)}};
  });
  metrics.AddGauge("baton_journal_jobs_bytes", "Memory of these jobs.",
                   [&kept, number] { return number(kept.counts().bytes); });
  metrics.AddCounters(
      "baton_journal_followers_total", "Calls that followed the job of an earlier call.", [&kept, number] {
        const LiveJobCounts counts = kept.counts();
        return Samples{{{{"by", "key"}}, number(counts.joined)}, {{{"by", "id"}}, number(counts.resumed)}};
      });
  metrics.AddCounters("baton_journal_dropped_total", "Jobs that were not kept to their time.", [&kept, number] {
    const LiveJobCounts counts = kept.counts();
    return Samples{{{{"reason", "room"}}, number(counts.evicted)},
                   {{{"reason", "unfollowed"}}, number(counts.unfollowed)}};
  });
}

void AddJournal(const JournalWriter* journal, CallbackMetrics& metrics) {
  const auto read = [journal](auto value) {
    return
        [journal, value]() -> double { return journal == nullptr ? 0 : static_cast<double>(value(journal->counts())); };
  };
  metrics.AddCounters("baton_journal_changes_total", "Changes of the journal's file.", [journal] {
    const JournalCounts counts = journal == nullptr ? JournalCounts{} : journal->counts();
    return Samples{{{{"result", "written"}}, static_cast<double>(counts.written)},
                   {{{"result", "failed"}}, static_cast<double>(counts.failed)}};
  });
  metrics.AddCounter("baton_journal_commits_total", "Transactions of the journal's file.",
                     read([](const JournalCounts& counts) { return counts.commits; }));
  metrics.AddCounter("baton_journal_write_seconds_total", "Time in which the journal's file was written.",
                     [journal]() -> double {
                       return journal == nullptr ? 0 : static_cast<double>(journal->counts().write_ns) / kNsPerSecond;
                     });
  metrics.AddGauge("baton_journal_waiting_changes", "Changes that wait to be written.",
                   read([](const JournalCounts& counts) { return counts.waiting; }));
  metrics.AddGauge("baton_journal_file_bytes", "Size of the journal's file.",
                   read([](const JournalCounts& counts) { return counts.size_bytes; }));
}

}  // namespace

std::shared_ptr<CallbackMetrics> MakeRouterMetrics(const RouterMetricsSources& sources) {
  auto metrics = std::make_shared<CallbackMetrics>();
  AddLine(sources, *metrics);
  AddWorkers(sources.views, *metrics);
  AddClients(sources, *metrics);
  AddKeptJobs(sources.kept, *metrics);
  AddJournal(sources.journal, *metrics);
  metrics->AddCounter("baton_loop_busy_seconds_total", "CPU time of the router's loop.",
                      OfView(sources.views, [](const RouterView& view) {
                        return static_cast<double>(view.loop_cpu_ns) / kNsPerSecond;
                      }));
  return metrics;
}

}  // namespace baton::router
