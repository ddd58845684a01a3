// Draws the latencies of a run: their distributions, and output messages per second over time. The SVG has no scripts
// and no fonts.
#ifndef BATON_BENCH_LOAD_LATENCY_PLOT_H_
#define BATON_BENCH_LOAD_LATENCY_PLOT_H_

#include <string>

#include "absl/types/span.h"
#include "bench/load/request_record.h"
#include "bench/load/summary.h"

namespace baton::bench {

// TTFT, TPOT and ITL have a panel each, which shows cumulative shares and the objective as a dashed line. One more
// panel shows output messages per second over the run.
std::string LatencySvg(const std::string& title, absl::Span<const RequestRecord> records, const Slo& slo);

}  // namespace baton::bench

#endif  // BATON_BENCH_LOAD_LATENCY_PLOT_H_
