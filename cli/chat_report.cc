#include "cli/chat_report.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace baton::cli {
namespace {

std::string PhasesText(const v1::PhaseTimes& timing) {
  return absl::StrFormat("%.0f ms = queue %.0f + prefill %.0f + transfer %.0f + decode %.0f + network %.0f",
                         timing.total_ms(), timing.queue_ms() + timing.admission_ms(), timing.prefill_ms(),
                         timing.transfer_ms(), timing.decode_ms(), timing.network_ms());
}

}  // namespace

std::string AnswerReport(const AnswerTiming& timing, const v1::Finished* finished) {
  std::string text = absl::StrCat(timing.tokens, timing.tokens == 1 ? " token" : " tokens");
  const int64_t later = timing.tokens - timing.first_tokens;
  if (later > 0 && timing.last_ms > timing.first_ms) {
    absl::StrAppendFormat(&text, ", %.1f tokens/s",
                          static_cast<double>(later) * 1000 / (timing.last_ms - timing.first_ms));
  }
  if (timing.tokens > 0) absl::StrAppendFormat(&text, ", first after %.0f ms", timing.first_ms);
  if (finished == nullptr) return text;
  const v1::Usage& usage = finished->usage();
  absl::StrAppend(&text, "; prompt ", usage.prompt_tokens());
  if (usage.cached_prompt_tokens() > 0) absl::StrAppend(&text, ", ", usage.cached_prompt_tokens(), " cached");
  absl::StrAppend(&text, "; ", PhasesText(finished->timing()));
  // Most users see here for the first time that there is a limit.
  if (finished->reason() == v1::FINISH_REASON_LENGTH) absl::StrAppend(&text, "; cut by max_tokens or the context");
  return text;
}

}  // namespace baton::cli
