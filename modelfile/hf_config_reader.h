// Bounded values of config.json, for the readers of each architecture.
#ifndef BATON_MODELFILE_HF_CONFIG_READER_H_
#define BATON_MODELFILE_HF_CONFIG_READER_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "modelfile/json_reader.h"

namespace baton::modelfile {

struct HfIntegerRule {
  std::string_view key;
  int32_t max = 0;
};

// 1 to rule.max; none when absent.
absl::StatusOr<std::optional<int32_t>> OptionalHfInteger(const JsonFields& fields, HfIntegerRule rule);

// A base of RoPE's angles, 1 to kMaxRopeTheta; `theta` stays as it is when absent.
absl::Status ReadHfTheta(const JsonFields& fields, std::string_view key, float* theta);

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_HF_CONFIG_READER_H_
