#include "grammar/json_spelling.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace baton::grammar {

std::string JsonEscape(uint32_t character) {
  switch (character) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return absl::StrFormat("\\u%04x", character);
  }
}

std::string SpellJsonString(std::string_view text) {
  std::string spelled = "\"";
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (NeedsJsonEscape(byte)) {
      spelled += JsonEscape(byte);
    } else {
      spelled.push_back(c);
    }
  }
  return spelled + '"';
}

}  // namespace baton::grammar
