// Which requests are traced, as OTEL_TRACES_SAMPLER says.
#ifndef BATON_TELEMETRY_SAMPLER_H_
#define BATON_TELEMETRY_SAMPLER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "telemetry/trace_context.h"

namespace baton::telemetry {

// A value, which any thread may ask.
class Sampler {
 public:
  // parentbased_always_on, the default of the specification.
  Sampler() = default;

  // `name` and `argument` are the values of OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG, empty where these are not
  // set. When the name is unknown or the argument is no number between 0 and 1, `warnings` gets a sentence, and the
  // default applies.
  static Sampler FromNames(std::string_view name, std::string_view argument, std::vector<std::string>& warnings);

  // Whether a request that its client made part of `parent`'s trace, or that begins the trace `trace_id`, is traced.
  // The answer depends on nothing else, so that all processes which sample by ratio agree on a trace.
  bool ShouldSample(const std::optional<TraceParent>& parent, const Id128& trace_id) const;

  // The name as in OTEL_TRACES_SAMPLER, with the ratio where there is one: "parentbased_traceidratio(0.1)".
  std::string Describe() const;

 private:
  enum class Root : uint8_t { kAlwaysOn, kAlwaysOff, kTraceIdRatio };

  bool SampleRoot(const Id128& trace_id) const;

  bool parent_based_ = true;
  Root root_ = Root::kAlwaysOn;
  double ratio_ = 1;
};

}  // namespace baton::telemetry

#endif  // BATON_TELEMETRY_SAMPLER_H_
