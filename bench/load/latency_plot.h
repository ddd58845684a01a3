// Draws the latencies of a run.
#ifndef BATON_BENCH_LOAD_LATENCY_PLOT_H_
#define BATON_BENCH_LOAD_LATENCY_PLOT_H_

#include <string>

#include "absl/types/span.h"
#include "bench/load/load_setting.h"
#include "bench/load/request_record.h"

namespace baton::bench {

// An SVG picture. TTFT, TPOT and ITL have a panel each with their cumulative distribution, its percentiles and the
// objective. One more panel shows output tokens per second over the run. The title says what was measured, how and
// when.
std::string LatencySvg(const LoadSetting& setting, absl::Span<const RequestRecord> records);

}  // namespace baton::bench

#endif  // BATON_BENCH_LOAD_LATENCY_PLOT_H_
