#include "router/access_log.h"

#include "absl/strings/str_format.h"
#include "common/log.h"
#include "common/log_trace.h"

namespace baton::router {

std::string AccessLine(const RequestRecord& record) {
  static const JobResult kNoJob;
  const JobResult& job = record.job == nullptr ? kNoJob : *record.job;
  const PhaseTimes& phases = record.phases;
  std::string line = absl::StrFormat("access id=%s outcome=%s", record.id.ToHex(), RequestOutcomeName(record.outcome));
  if (record.outcome == RequestOutcome::kOk) {
    absl::StrAppendFormat(&line, " finish=%s", record.finish == FinishReason::kStop ? "stop" : "length");
  } else {
    absl::StrAppendFormat(&line, " code=%s", absl::StatusCodeToString(record.status.code()));
  }
  absl::StrAppendFormat(&line, " prompt_tokens=%d output_tokens=%d cached_tokens=%d attempts=%d", record.prompt_tokens,
                        record.output_tokens, job.cached_tokens, job.attempts);
  absl::StrAppendFormat(&line, " ttft_ms=%.3f itl_ms=%.3f total_ms=%.3f", NsToMs(record.ttft_ns),
                        NsToMs(record.mean_itl_ns), NsToMs(record.total_ns));
  absl::StrAppendFormat(
      &line, " queue_ms=%.3f admission_ms=%.3f prefill_ms=%.3f transfer_ms=%.3f decode_ms=%.3f network_ms=%.3f",
      NsToMs(phases.queue_ns), NsToMs(phases.admission_ns), NsToMs(phases.prefill_ns), NsToMs(phases.transfer_ns),
      NsToMs(phases.decode_ns), NsToMs(record.network_ns));
  if (job.other_numerics_from.has_value()) {
    absl::StrAppendFormat(&line, " other_numerics_from=%d", *job.other_numerics_from);
  }
  if (!job.prefill_worker.empty()) absl::StrAppendFormat(&line, " prefill=%s", job.prefill_worker);
  if (!job.decode_worker.empty()) absl::StrAppendFormat(&line, " decode=%s", job.decode_worker);
  return line;
}

void AccessLog::OnRequestEnded(const RequestRecord& record) {
  const LogTrace trace(record.trace.trace_id);
  spdlog::info(AccessLine(record));
}

}  // namespace baton::router
