// When one router is to be told who holds the blocks of a worker.
//
//   state   | event                                     | next    | result
//   --------+-------------------------------------------+---------+---------------------------------------------------
//   any     | Start                                     | told    | a report is due at once
//   any     | Stop                                      | stopped | none is due
//   told    | the interval is over                      | told    | a report is due
//   told    | OnReport that names holders               | watched | it is sent
//   told    | OnReport that names none                  | told    | it is sent
//   watched | the interval is over                      | told    | a report is due
//   watched | the worker holds nothing                  | watched | a report is due early
//   watched | OnReport, early, that names holders       | told    | it is not sent
//   watched | OnReport, early, that names none          | told    | it is sent
//
// So at most one early report falls between two others. Whoever waits for idle workers need not wait for an interval.
#ifndef BATON_WORKER_BLOCK_REPORT_SCHEDULE_H_
#define BATON_WORKER_BLOCK_REPORT_SCHEDULE_H_

#include <cstdint>

#include "common/block_report.h"
#include "common/clock.h"

namespace baton::worker {

// Used by one thread.
class BlockReportSchedule {
 public:
  explicit BlockReportSchedule(int64_t interval_ms) : interval_ms_(interval_ms) {}

  // The router has accepted the worker and takes reports.
  void Start(TimeNs now);
  void Stop();

  bool IsDue(TimeNs now, bool holds_nothing) const { return now >= next_ || (holds_nothing && awaits_empty_); }
  // The report that was due. Whether it is to be sent: the router counts reports that name a holder as time, so none of
  // them may come early.
  bool OnReport(TimeNs now, const BlockReport& report);

 private:
  const int64_t interval_ms_;
  // kNever while stopped.
  TimeNs next_ = kNever;
  // Watched.
  bool awaits_empty_ = false;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_BLOCK_REPORT_SCHEDULE_H_
