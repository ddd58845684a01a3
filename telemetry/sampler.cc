#include "telemetry/sampler.h"

#include <cmath>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"

namespace baton::telemetry {

Sampler Sampler::FromNames(std::string_view name, std::string_view argument, std::vector<std::string>& warnings) {
  Sampler sampler;
  if (name.empty()) return sampler;
  constexpr std::string_view kParentBased = "parentbased_";
  std::string_view root = name;
  sampler.parent_based_ = root.substr(0, kParentBased.size()) == kParentBased;
  if (sampler.parent_based_) root.remove_prefix(kParentBased.size());
  if (root == "always_on") return sampler;
  if (root == "always_off") {
    sampler.root_ = Root::kAlwaysOff;
    return sampler;
  }
  if (root != "traceidratio") {
    warnings.push_back(absl::StrCat("OTEL_TRACES_SAMPLER: ", ToAbsl(name),
                                    " is no sampler that Baton has; parentbased_always_on applies"));
    return {};
  }
  sampler.root_ = Root::kTraceIdRatio;
  double ratio = 0;
  if (argument.empty()) return sampler;
  if (absl::SimpleAtod(ToAbsl(argument), &ratio) && ratio >= 0 && ratio <= 1) {
    sampler.ratio_ = ratio;
  } else {
    warnings.push_back(
        absl::StrCat("OTEL_TRACES_SAMPLER_ARG: ", ToAbsl(argument), " is no number between 0 and 1; 1 applies"));
  }
  return sampler;
}

bool Sampler::ShouldSample(const std::optional<TraceParent>& parent, const Id128& trace_id) const {
  if (parent_based_ && parent.has_value()) return parent->sampled();
  return SampleRoot(trace_id);
}

bool Sampler::SampleRoot(const Id128& trace_id) const {
  if (root_ == Root::kAlwaysOff) return false;
  if (root_ == Root::kAlwaysOn || ratio_ >= 1) return true;
  // The low half of the id decides, without its last bit, as in OpenTelemetry's own libraries.
  constexpr double kValues = 9223372036854775808.0;  // 2^63
  return trace_id.low >> 1 < static_cast<uint64_t>(ratio_ * kValues);
}

std::string Sampler::Describe() const {
  const char* parent = parent_based_ ? "parentbased_" : "";
  switch (root_) {
    case Root::kAlwaysOn:
      return absl::StrCat(parent, "always_on");
    case Root::kAlwaysOff:
      return absl::StrCat(parent, "always_off");
    case Root::kTraceIdRatio:
      return absl::StrCat(parent, "traceidratio(", ratio_, ")");
  }
  return {};
}

}  // namespace baton::telemetry
