#include "grammar/schema_source.h"

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/status.h"

namespace baton::grammar {
namespace {

constexpr size_t kMaxShownBytes = 128;

std::string Shorten(std::string text) {
  if (text.size() > kMaxShownBytes) text = absl::StrCat(text.substr(0, kMaxShownBytes), "...");
  return absl::Utf8SafeCEscape(text);
}

// A part of a URI's fragment with its %XX resolved.
std::optional<std::string> DecodePercents(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded.push_back(text[i]);
      continue;
    }
    const std::string_view digits = text.substr(i + 1, 2);
    int value = 0;
    if (digits.size() < 2 || !absl::SimpleHexAtoi(ToAbsl(digits), &value)) return std::nullopt;
    decoded.push_back(static_cast<char>(value));
    i += 2;
  }
  return decoded;
}

const JsonValue* Member(const JsonValue& value, const std::string& token) {
  if (value.is_object()) return value.Find(token);
  uint32_t index = 0;
  const bool is_index = value.is_array() && absl::SimpleAtoi(token, &index) && absl::StrCat(index) == token;
  return is_index && index < value.items.size() ? &value.items[index] : nullptr;
}

// Writes the path of `wanted` below `value`, which has `path` itself.
bool FindPath(const JsonValue& value, const JsonValue& wanted, std::string* path) {
  if (&value == &wanted) return true;
  for (size_t i = 0; i < value.items.size(); ++i) {
    const size_t before = path->size();
    absl::StrAppend(path, "/", value.is_object() ? value.keys[i] : absl::StrCat(i));
    if (FindPath(value.items[i], wanted, path)) return true;
    path->resize(before);
  }
  return false;
}

}  // namespace

absl::StatusOr<const JsonValue*> SchemaSource::Resolve(const std::string& ref) {
  if (const auto it = resolved_.find(ref); it != resolved_.end()) return it->second;
  BATON_ASSIGN_OR_RETURN(const JsonValue* node, Follow(ref));
  resolved_[ref] = node;
  return node;
}

absl::StatusOr<const JsonValue*> SchemaSource::Follow(const std::string& ref) const {
  if (ref.empty() || ref[0] != '#' || (ref.size() > 1 && ref[1] != '/')) {
    return absl::UnimplementedError(
        absl::StrCat("schema: $ref ", Shorten(ref), " is not supported: only # and #/... are"));
  }
  const JsonValue* node = &root_;
  if (ref.size() == 1) return node;
  for (const auto& part : absl::StrSplit(ref.substr(2), '/')) {
    const std::optional<std::string> decoded = DecodePercents(ToStd(part));
    if (node != &root_ && node->Find("$id") != nullptr) return Unsupported(*node, "$id");
    node = !decoded ? nullptr : Member(*node, absl::StrReplaceAll(*decoded, {{"~1", "/"}, {"~0", "~"}}));
    if (node == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("schema: $ref ", Shorten(ref), " refers to nothing"));
    }
  }
  return node;
}

std::string SchemaSource::PathOf(const JsonValue& node) const {
  std::string path = "#";
  FindPath(root_, node, &path);
  return path;
}

std::string SchemaSource::Where(const JsonValue& node, std::string_view keyword) const {
  return absl::StrCat("schema, ", Shorten(PathOf(node)), ": ", Shorten(std::string(keyword)));
}

absl::Status SchemaSource::Malformed(const JsonValue& node, std::string_view keyword, std::string_view why) const {
  return absl::InvalidArgumentError(absl::StrCat(Where(node, keyword), " ", ToAbsl(why)));
}

absl::Status SchemaSource::Unsupported(const JsonValue& node, std::string_view keyword, std::string_view why) const {
  return absl::UnimplementedError(
      absl::StrCat(Where(node, keyword), " is not supported", why.empty() ? "" : " ", ToAbsl(why)));
}

absl::Status SchemaSource::TooLarge(const JsonValue& node, std::string_view keyword, std::string_view why) const {
  return absl::ResourceExhaustedError(absl::StrCat(Where(node, keyword), " ", ToAbsl(why)));
}

}  // namespace baton::grammar
