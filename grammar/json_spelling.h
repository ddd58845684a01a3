// How JSON strings are spelled where each has one spelling: a character is written as it is, unless JSON does not allow
// that, and then as short as possible.
#ifndef BATON_GRAMMAR_JSON_SPELLING_H_
#define BATON_GRAMMAR_JSON_SPELLING_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace baton::grammar {

inline bool NeedsJsonEscape(uint32_t character) { return character < 0x20 || character == '"' || character == '\\'; }
// Requires a character that needs it.
std::string JsonEscape(uint32_t character);
// The text between two quotes. Requires valid UTF-8.
std::string SpellJsonString(std::string_view text);

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_JSON_SPELLING_H_
