#include "gateway/field_reader.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/limits.h"
#include "common/status.h"
#include "gateway/json_reading.h"
#include "router/error_details.h"

namespace baton::gateway {
namespace {

using nlohmann::json;
using router::FieldViolation;

const FieldRule* FindRule(absl::Span<const FieldRule> rules, const std::string& name) {
  const auto* const found =
      std::find_if(rules.begin(), rules.end(), [&name](const FieldRule& rule) { return name == rule.name; });
  return found == rules.end() ? nullptr : found;
}

bool IsTextPart(const json& part, const TextParts& parts) {
  if (!part.is_object()) return false;
  const json type = part.value("type", json());
  const json text = part.value("text", json());
  if (!type.is_string() || !text.is_string()) return false;
  if (std::find(parts.types.begin(), parts.types.end(), type.get_ref<const std::string&>()) == parts.types.end()) {
    return false;
  }
  const auto ignored = std::count_if(parts.ignored.begin(), parts.ignored.end(),
                                     [&part](const char* name) { return part.contains(name); });
  return part.size() == 2 + static_cast<size_t>(ignored);
}

}  // namespace

absl::Status CheckFields(const json& object, absl::Span<const FieldRule> rules, absl::Span<const FieldRule> more_rules,
                         const std::string& prefix) {
  for (const auto& [name, value] : object.items()) {
    const FieldRule* rule = FindRule(rules, name);
    if (rule == nullptr) rule = FindRule(more_rules, name);
    if (rule == nullptr) return FieldViolation(prefix + name.substr(0, kMaxShownNameBytes), kUnknownField);
    if (rule->use != FieldUse::kUnbuilt || value.is_null() || value == json::parse(rule->nothing)) continue;
    return router::FieldStatus(absl::StatusCode::kUnimplemented,
                               {.field = prefix + name, .description = "not supported yet"});
  }
  return absl::OkStatus();
}

std::optional<std::string> ReadTextContent(const json& content, const TextParts& parts) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return std::nullopt;
  std::string text;
  for (const json& part : content) {
    if (!IsTextPart(part, parts)) return std::nullopt;
    text += part.find("text")->get_ref<const std::string&>();
  }
  return text;
}

absl::StatusOr<std::vector<tokenizer::ChatMessage>> ReadMessageList(
    const json* messages,
    absl::FunctionRef<absl::Status(const json& message, const std::string& field,
                                   std::vector<tokenizer::ChatMessage>& chat)>
        read,
    const char* name) {
  if (messages == nullptr || !messages->is_array()) return FieldViolation(name, "must be a list of messages");
  if (messages->size() > kMaxChatMessages) {
    return FieldViolation(name, absl::StrCat("at most ", kMaxChatMessages, " messages, not ", messages->size()));
  }
  std::vector<tokenizer::ChatMessage> chat;
  for (size_t i = 0; i < messages->size(); ++i) {
    BATON_RETURN_IF_ERROR(read((*messages)[i], absl::StrCat(name, "[", i, "]"), chat));
  }
  return chat;
}

const json* FieldReader::Find(const char* name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<bool> FieldReader::Bool(const char* name) {
  const json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  return Wrong(name, "must be true or false");
}

std::optional<float> FieldReader::Number(const char* name) {
  const json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_number() && std::isfinite(value->get<float>())) return value->get<float>();
  return Wrong(name, "must be a number");
}

std::optional<int32_t> FieldReader::Integer(const char* name) {
  const json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (const auto integer = ToInt32(*value)) return integer;
  return Wrong(name, "must be a whole number of 32 bits");
}

std::optional<uint64_t> FieldReader::Unsigned(const char* name) {
  const json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_number_unsigned()) return value->get<uint64_t>();
  return Wrong(name, "must be a whole number that is not negative");
}

std::string FieldReader::String(const char* name) {
  const json* value = Find(name);
  if (value == nullptr) return {};
  if (value->is_string()) return value->get<std::string>();
  Wrong(name, "must be a string");
  return {};
}

std::vector<std::string> FieldReader::Strings(const char* name) {
  const json* value = Find(name);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->get<std::string>()};
  std::vector<std::string> strings;
  if (value->is_array()) {
    for (const json& each : *value) {
      if (!each.is_string()) break;
      strings.push_back(each.get<std::string>());
    }
    if (strings.size() == value->size()) return strings;
  }
  Wrong(name, "must be a string or a list of strings");
  return {};
}

std::vector<int32_t> FieldReader::Integers(const char* name) {
  const json* value = Find(name);
  if (value == nullptr) return {};
  if (auto integers = ToInt32s(*value)) return *std::move(integers);
  Wrong(name, "must be a list of whole numbers");
  return {};
}

std::nullopt_t FieldReader::Wrong(const char* name, std::string_view description) {
  if (status_.ok()) status_ = FieldViolation(prefix_ + name, description);
  return std::nullopt;
}

}  // namespace baton::gateway
