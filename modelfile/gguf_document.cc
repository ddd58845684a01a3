#include "modelfile/gguf_document.h"

#include <cstdlib>
#include <cstring>
#include <limits>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status.h"
#include "modelfile/limits.h"

namespace baton::modelfile {
namespace {

template <typename T>
T Load(const GgufValue& value, size_t index) {
  T result;
  std::memcpy(&result, value.bytes + index * sizeof(T), sizeof(T));
  return result;
}

absl::Status WrongType(std::string_view key, const GgufValue& value, std::string_view wanted) {
  return absl::InvalidArgumentError(absl::StrCat("damaged GGUF metadata: ", ToAbsl(key), " is of type ",
                                                 ShowGgufType(value), ", must be ", ToAbsl(wanted),
                                                 "; fetch the file again or use another conversion of the model"));
}

// The first of these numbers of digits always suffices for a number that was written with as many, the last for any.
template <typename T>
std::string ShowWithDigits(T value, int first, int last) {
  for (int digits = first; digits < last; ++digits) {
    std::string text = absl::StrFormat("%.*g", digits, value);
    if (static_cast<T>(std::strtod(text.c_str(), nullptr)) == value) return text;
  }
  return absl::StrFormat("%.*g", last, value);
}

std::string ShowElement(const GgufValue& value, size_t index) {
  switch (value.type) {
    case GgufType::kString:
      return ShowText(value.strings[index]);
    case GgufType::kBool:
      return value.bytes[index] != 0 ? "true" : "false";
    case GgufType::kF32:
      return ShowFloat(Load<float>(value, index));
    case GgufType::kF64:
      return ShowFloat(Load<double>(value, index));
    case GgufType::kU64:
      return absl::StrCat(Load<uint64_t>(value, index));
    default:
      return absl::StrCat(*GgufInteger(value, index));
  }
}

}  // namespace

std::string ShowFloat(float value) { return ShowWithDigits(value, 7, 9); }
std::string ShowFloat(double value) { return ShowWithDigits(value, 15, 17); }

std::optional<int64_t> GgufInteger(const GgufValue& value, size_t index) {
  switch (value.type) {
    case GgufType::kU8:
      return Load<uint8_t>(value, index);
    case GgufType::kI8:
      return Load<int8_t>(value, index);
    case GgufType::kU16:
      return Load<uint16_t>(value, index);
    case GgufType::kI16:
      return Load<int16_t>(value, index);
    case GgufType::kU32:
      return Load<uint32_t>(value, index);
    case GgufType::kI32:
      return Load<int32_t>(value, index);
    case GgufType::kI64:
      return Load<int64_t>(value, index);
    case GgufType::kU64: {
      const auto number = Load<uint64_t>(value, index);
      if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
      return static_cast<int64_t>(number);
    }
    default:
      return std::nullopt;
  }
}

std::string ShowText(std::string_view text) {
  if (text.size() <= kMaxShownBytes) return absl::Utf8SafeCEscape(ToAbsl(text));
  size_t cut = kMaxShownBytes;
  while (cut > 0 && (static_cast<uint8_t>(text[cut]) & 0xC0) == 0x80) --cut;
  return absl::StrCat(absl::Utf8SafeCEscape(ToAbsl(text.substr(0, cut))), "... (", text.size(), " bytes)");
}

std::string ShowGgufValue(const GgufValue& value) {
  if (!value.is_array) return ShowElement(value, 0);
  std::string line = "[";
  for (size_t i = 0; i < value.count && i < kMaxShownElements; ++i) {
    absl::StrAppend(&line, i > 0 ? ", " : "", ShowElement(value, i));
  }
  absl::StrAppend(&line, value.count > kMaxShownElements ? ", ...]" : "]");
  return line;
}

std::string ShowGgufType(const GgufValue& value) {
  const auto name = ToAbsl(GgufTypeName(value.type));
  return value.is_array ? absl::StrCat("array of ", value.count, " ", name) : std::string(name);
}

const GgufValue* GgufDocument::Find(std::string_view key) const {
  const auto it = entry_index_.find(ToAbsl(key));
  return it == entry_index_.end() ? nullptr : &entries_[it->second].value;
}

const TensorView* GgufDocument::FindTensor(std::string_view name) const {
  const auto it = tensor_index_.find(ToAbsl(name));
  return it == tensor_index_.end() ? nullptr : &tensors_[it->second];
}

absl::StatusOr<std::optional<int64_t>> GgufDocument::Integer(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::nullopt;
  const std::optional<int64_t> number = value->is_array ? std::nullopt : GgufInteger(*value, 0);
  if (!number.has_value()) return WrongType(key, *value, "an integer below 2^63");
  return number;
}

absl::StatusOr<std::optional<double>> GgufDocument::Float(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array && value->type == GgufType::kF32) return Load<float>(*value, 0);
  if (!value->is_array && value->type == GgufType::kF64) return Load<double>(*value, 0);
  return WrongType(key, *value, "a float");
}

absl::StatusOr<std::optional<bool>> GgufDocument::Bool(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_array || value->type != GgufType::kBool) return WrongType(key, *value, "a bool");
  return value->bytes[0] != 0;
}

absl::StatusOr<std::optional<std::string_view>> GgufDocument::String(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_array || value->type != GgufType::kString) return WrongType(key, *value, "a string");
  return value->strings[0];
}

absl::StatusOr<const std::vector<std::string_view>*> GgufDocument::StringArray(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return nullptr;
  if (!value->is_array || value->type != GgufType::kString) return WrongType(key, *value, "an array of strings");
  return &value->strings;
}

}  // namespace baton::modelfile
