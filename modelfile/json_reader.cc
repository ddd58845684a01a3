#include "modelfile/json_reader.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "modelfile/gguf_document.h"
#include "modelfile/limits.h"

namespace baton::modelfile {
namespace {

constexpr std::string_view kRemedy = "; fetch the model again or correct the file";

absl::Status RefusedFile(std::string_view file, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(ToAbsl(file), ": ", ToAbsl(what), ToAbsl(kRemedy)));
}

// Counts nested brackets outside strings. The parser does not recurse, but the code that walks its result does.
size_t DepthOf(std::string_view text) {
  size_t depth = 0;
  size_t deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

absl::Status CheckJsonText(std::string_view text, std::string_view file, uint64_t max_bytes) {
  if (text.size() > max_bytes) {
    return RefusedFile(file, absl::StrCat("has ", text.size(), " bytes, limit ", max_bytes));
  }
  if (const size_t depth = DepthOf(text); depth > kMaxJsonDepth) {
    return RefusedFile(file, absl::StrCat("nests ", depth, " levels deep, limit ", kMaxJsonDepth));
  }
  return absl::OkStatus();
}

absl::StatusOr<Json> ParseJsonObject(std::string_view text, std::string_view file, uint64_t max_bytes) {
  BATON_RETURN_IF_ERROR(CheckJsonText(text, file, max_bytes));
  Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return RefusedFile(file, json.is_discarded() ? "is not valid JSON" : "is not a JSON object");
  return json;
}

std::string ShowJson(const Json& value) {
  if (value.is_structured()) return absl::StrCat(value.is_array() ? "an array of " : "an object of ", value.size());
  if (const auto* text = value.get_ptr<const std::string*>()) return absl::StrCat("\"", ShowText(*text), "\"");
  return value.dump();
}

const Json* JsonFields::Find(std::string_view key) const {
  if (!object_.is_object()) return nullptr;
  const auto it = object_.find(std::string(key));
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

absl::Status JsonFields::Refuse(std::string_view key, std::string_view wanted) const {
  const Json* value = Find(key);
  return RefusedFile(file_, absl::StrCat(ToAbsl(key), " is ", value == nullptr ? "missing" : ShowJson(*value),
                                         ", must be ", ToAbsl(wanted)));
}

absl::Status JsonFields::NotBuilt(std::string_view key) const {
  const Json* value = Find(key);
  return absl::UnimplementedError(absl::StrCat(file_, ": ", ToAbsl(key), " is ",
                                               value == nullptr ? "missing" : ShowJson(*value),
                                               ", which Baton does not run; use another model"));
}

absl::StatusOr<std::optional<int64_t>> JsonFields::Integer(std::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  const bool beyond = value->is_number_unsigned() && *value->get_ptr<const Json::number_unsigned_t*>() > INT64_MAX;
  if (!value->is_number_integer() || beyond) return Refuse(key, "an integer below 2^63");
  return value->get<int64_t>();
}

absl::StatusOr<std::optional<double>> JsonFields::Number(std::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) return Refuse(key, "a number");
  return value->get<double>();
}

absl::StatusOr<std::optional<bool>> JsonFields::Bool(std::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) return Refuse(key, "true or false");
  return value->get<bool>();
}

absl::StatusOr<std::optional<std::string>> JsonFields::String(std::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return Refuse(key, "a string");
  return value->get<std::string>();
}

absl::StatusOr<const Json*> JsonFields::Object(std::string_view key) const {
  const Json* value = Find(key);
  if (value != nullptr && !value->is_object()) return Refuse(key, "an object");
  return value;
}

absl::StatusOr<const Json*> JsonFields::Array(std::string_view key) const {
  const Json* value = Find(key);
  if (value != nullptr && !value->is_array()) return Refuse(key, "an array");
  return value;
}

}  // namespace baton::modelfile
