// Python's string operations for UTF-8. All take and return valid UTF-8. Positions count characters.
#ifndef BATON_TOKENIZER_JINJA_TEXT_H_
#define BATON_TOKENIZER_JINJA_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace baton::tokenizer::jinja {

// str.isspace for one character.
bool IsSpace(uint32_t code_point);

std::string_view StripLeft(std::string_view text);
std::string_view StripRight(std::string_view text);
inline std::string_view Strip(std::string_view text) { return StripLeft(StripRight(text)); }
// Removes characters that are in `chars`, as str.strip(chars) does.
std::string_view StripLeft(std::string_view text, std::string_view chars);
std::string_view StripRight(std::string_view text, std::string_view chars);

std::string Upper(std::string_view text);
std::string Lower(std::string_view text);
// str.title, which changes the first letter of each word.
std::string Title(std::string_view text);
std::string Capitalize(std::string_view text);

// Cuts at most `max_splits` times; a negative number means no bound. `separator` must not be empty.
std::vector<std::string_view> Split(std::string_view text, std::string_view separator, int64_t max_splits);
// Cuts at runs of white space. Leading and trailing runs give no empty parts.
std::vector<std::string_view> SplitSpaces(std::string_view text, int64_t max_splits);
std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends);
// Like string_view::find, but in linear time, because a template chooses both strings.
size_t Find(std::string_view text, std::string_view part, size_t from = 0);
// How often `part` occurs without overlap. An empty part occurs between all characters.
size_t CountParts(std::string_view text, std::string_view part);
// Replaces at most `max_count` times; a negative number means always.
std::string Replace(std::string_view text, std::string_view from, std::string_view to, int64_t max_count);

// The byte offset of a character position, or text.size() beyond the end.
size_t ByteOffset(std::string_view text, size_t position);

// The properties of str.isdigit and its like; `kAlnum` is isalnum.
enum class CharClass : uint8_t { kAlpha, kDigit, kAlnum, kSpace, kUpper, kLower };
bool AllAre(std::string_view text, CharClass char_class);

}  // namespace baton::tokenizer::jinja

#endif  // BATON_TOKENIZER_JINJA_TEXT_H_
