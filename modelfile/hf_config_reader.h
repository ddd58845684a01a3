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

// An integer from 1 to rule.max. None when the key is absent.
absl::StatusOr<std::optional<int32_t>> OptionalHfInteger(const JsonFields& fields, HfIntegerRule rule);

// Reads a base of RoPE's angles from 1 to kMaxRopeTheta. An absent key leaves `theta` as it is.
absl::Status ReadHfTheta(const JsonFields& fields, std::string_view key, float* theta);

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_HF_CONFIG_READER_H_
