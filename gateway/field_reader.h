// Reads the fields of the JSON objects that clients send, and refuses those that are not known or not built, by name.
#ifndef BATON_GATEWAY_FIELD_READER_H_
#define BATON_GATEWAY_FIELD_READER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nlohmann/json.hpp"
#include "tokenizer/chat_template.h"

namespace baton::gateway {

// Errors repeat a client's name of a field, or of what is in one, up to this length.
inline constexpr size_t kMaxShownNameBytes = 64;

enum class FieldUse : uint8_t {
  kRead,
  // It changes nothing of the answer.
  kIgnored,
  // Not built: refused, but for the values that ask for nothing.
  kUnbuilt,
};

// What is said of a field that has no rule.
inline constexpr char kUnknownField[] = "this field is not known";

struct FieldRule {
  const char* name;
  FieldUse use = FieldUse::kRead;
  // For kUnbuilt, as JSON: the value that asks for nothing. null always does.
  const char* nothing = "null";
};

// INVALID_ARGUMENT for a field of `object` that has no rule in either list, UNIMPLEMENTED for one that is not built.
// `prefix` names the object in the error: "" or "thinking.".
absl::Status CheckFields(const nlohmann::json& object, absl::Span<const FieldRule> rules,
                         absl::Span<const FieldRule> more_rules = {}, const std::string& prefix = "");

// The parts of a message that are text.
struct TextParts {
  // What their type may be.
  std::vector<const char*> types = {"text"};
  // Members that they may have beside type and text.
  std::vector<const char*> ignored = {};
};

// Text as a string, or as a list of parts that all are text; nullopt for everything else.
std::optional<std::string> ReadTextContent(const nlohmann::json& content, const TextParts& parts = {});

// Reads the list of messages `name`, each of which `read` adds to the chat, or refuses; `field` is its name in errors.
// INVALID_ARGUMENT for what is no list, and beyond kMaxChatMessages.
absl::StatusOr<std::vector<tokenizer::ChatMessage>> ReadMessageList(
    const nlohmann::json* messages,
    absl::FunctionRef<absl::Status(const nlohmann::json& message, const std::string& field,
                                   std::vector<tokenizer::ChatMessage>& chat)>
        read,
    const char* name = "messages");

// Reads the fields of one object, which outlives it. The first field that is wrong gives the status; until it is asked
// for, a wrong field reads as one that is not there.
class FieldReader {
 public:
  explicit FieldReader(const nlohmann::json& object, std::string prefix = "")
      : object_(object), prefix_(std::move(prefix)) {}

  const absl::Status& status() const { return status_; }
  // Null when there is none; JSON's null stands for none.
  const nlohmann::json* Find(const char* name) const;
  std::optional<bool> Bool(const char* name);
  std::optional<float> Number(const char* name);
  std::optional<int32_t> Integer(const char* name);
  std::optional<uint64_t> Unsigned(const char* name);
  std::string String(const char* name);
  // A list, or one string.
  std::vector<std::string> Strings(const char* name);
  std::vector<int32_t> Integers(const char* name);
  // The field is wrong.
  std::nullopt_t Wrong(const char* name, std::string_view description);

 private:
  const nlohmann::json& object_;
  const std::string prefix_;
  absl::Status status_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_FIELD_READER_H_
