// Reads the JSON of model directories, which anyone may have written. Reading is bounded and throws nothing, and errors
// name the file and the key.
#ifndef BATON_MODELFILE_JSON_READER_H_
#define BATON_MODELFILE_JSON_READER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace baton::modelfile {

using Json = nlohmann::json;

// INVALID_ARGUMENT, naming `file`, for text that is longer than `max_bytes` or nested deeper than kMaxJsonDepth.
absl::Status CheckJsonText(std::string_view text, std::string_view file, uint64_t max_bytes);

// Parses an object. INVALID_ARGUMENT, naming `file`, for text that is no JSON object, longer than `max_bytes` or nested
// deeper than kMaxJsonDepth.
absl::StatusOr<Json> ParseJsonObject(std::string_view text, std::string_view file, uint64_t max_bytes);

// The value as one line for people, escaped and shortened.
std::string ShowJson(const Json& value);

// Typed members of an object. An absent member and null both read as none. INVALID_ARGUMENT when the type does not fit.
// The object must outlive this reader.
class JsonFields {
 public:
  JsonFields(const Json& object, std::string_view file) : object_(object), file_(file) {}

  // Null when absent.
  const Json* Find(std::string_view key) const;
  absl::StatusOr<std::optional<int64_t>> Integer(std::string_view key) const;
  absl::StatusOr<std::optional<double>> Number(std::string_view key) const;
  absl::StatusOr<std::optional<bool>> Bool(std::string_view key) const;
  absl::StatusOr<std::optional<std::string>> String(std::string_view key) const;
  // Null when absent.
  absl::StatusOr<const Json*> Object(std::string_view key) const;
  absl::StatusOr<const Json*> Array(std::string_view key) const;

  // INVALID_ARGUMENT about one member: "FILE: KEY is VALUE, must be WANTED; ...".
  absl::Status Refuse(std::string_view key, std::string_view wanted) const;
  // UNIMPLEMENTED about one member.
  absl::Status NotBuilt(std::string_view key) const;
  std::string_view file() const { return file_; }

 private:
  const Json& object_;
  const std::string file_;
};

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_JSON_READER_H_
