// Latencies of a run as a picture: their distributions, and tokens a second over time. SVG, without scripts or fonts.
#ifndef BATON_BENCH_LOAD_LATENCY_PLOT_H_
#define BATON_BENCH_LOAD_LATENCY_PLOT_H_

#include <string>

#include "absl/types/span.h"
#include "bench/load/request_record.h"
#include "bench/load/summary.h"

namespace baton::bench {

// One panel each: TTFT, TPOT and ITL as cumulative shares, with the objective as a dashed line, and output messages a
// second over the run.
std::string LatencySvg(const std::string& title, absl::Span<const RequestRecord> records, const Slo& slo);

}  // namespace baton::bench

#endif  // BATON_BENCH_LOAD_LATENCY_PLOT_H_
