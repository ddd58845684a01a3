#include "worker/block_report_schedule.h"

namespace baton::worker {

void BlockReportSchedule::Start(TimeNs now) {
  next_ = now;
  awaits_empty_ = false;
}

void BlockReportSchedule::Stop() {
  next_ = kNever;
  awaits_empty_ = false;
}

bool BlockReportSchedule::OnReport(TimeNs now, const BlockReport& report) {
  const bool names_holders = report.other_routers_blocks > 0 || !report.holders.empty();
  const bool is_early = now < next_;
  awaits_empty_ = names_holders && !is_early;
  if (names_holders && is_early) return false;
  next_ = After(now, interval_ms_);
  return true;
}

}  // namespace baton::worker
