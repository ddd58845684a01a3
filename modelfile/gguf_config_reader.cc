#include "modelfile/gguf_config_reader.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status.h"

namespace baton::modelfile {

absl::Status Refused(std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("damaged GGUF metadata: ", ToAbsl(what),
                                                 "; fetch the file again or use another conversion of the model"));
}

absl::Status NotBuilt(std::string_view what) {
  return absl::UnimplementedError(absl::StrCat(ToAbsl(what), ", which Baton does not run; use another model"));
}

absl::StatusOr<std::optional<int32_t>> GgufConfigReader::Optional(std::string_view key, int32_t max) const {
  BATON_ASSIGN_OR_RETURN(const std::optional<int64_t> value, document_.Integer(Key(key)));
  if (!value.has_value()) return std::nullopt;
  if (*value < 1 || *value > max) return Refused(absl::StrCat(Key(key), " is ", *value, ", must be 1 to ", max));
  return static_cast<int32_t>(*value);
}

absl::StatusOr<int32_t> GgufConfigReader::Required(std::string_view key, int32_t max) const {
  BATON_ASSIGN_OR_RETURN(const std::optional<int32_t> value, Optional(key, max));
  if (!value.has_value()) return Refused(absl::StrCat(Key(key), " is missing"));
  return *value;
}

absl::StatusOr<std::optional<double>> GgufConfigReader::OptionalFloat(std::string_view key, FloatRange range) const {
  BATON_ASSIGN_OR_RETURN(const std::optional<double> value, document_.Float(Key(key)));
  // Negated, so that NaN is refused too.
  if (value.has_value() && !(*value >= range.min && *value <= range.max)) {
    return Refused(absl::StrFormat("%s is %g, must be %g to %g", Key(key), *value, range.min, range.max));
  }
  return value;
}

absl::Status GgufConfigReader::MustBeZero(std::string_view key) const {
  const GgufValue* const value = document_.Find(Key(key));
  if (value == nullptr) return absl::OkStatus();
  const bool is_float = !value->is_array && (value->type == GgufType::kF32 || value->type == GgufType::kF64);
  if (is_float) {
    BATON_ASSIGN_OR_RETURN(const std::optional<double> number, document_.Float(Key(key)));
    if (*number == 0) return absl::OkStatus();
  } else {
    BATON_ASSIGN_OR_RETURN(const std::optional<int64_t> number, document_.Integer(Key(key)));
    if (*number == 0) return absl::OkStatus();
  }
  return NotBuilt(absl::StrCat(Key(key), " is ", ShowGgufValue(*value)));
}

}  // namespace baton::modelfile
