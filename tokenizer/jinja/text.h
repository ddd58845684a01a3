// Python's string operations over UTF-8. All take and give valid UTF-8; positions count characters.
#ifndef BATON_TOKENIZER_JINJA_TEXT_H_
#define BATON_TOKENIZER_JINJA_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace baton::tokenizer::jinja {

// str.isspace of one character.
bool IsSpace(uint32_t code_point);

std::string_view StripLeft(std::string_view text);
std::string_view StripRight(std::string_view text);
inline std::string_view Strip(std::string_view text) { return StripLeft(StripRight(text)); }
// Characters that are in `chars`, as str.strip(chars) does.
std::string_view StripLeft(std::string_view text, std::string_view chars);
std::string_view StripRight(std::string_view text, std::string_view chars);

std::string Upper(std::string_view text);
std::string Lower(std::string_view text);
// str.title: each word's first letter.
std::string Title(std::string_view text);
std::string Capitalize(std::string_view text);

// At most `max_splits` cuts; negative: no bound. An empty separator is the caller's error.
std::vector<std::string_view> Split(std::string_view text, std::string_view separator, int64_t max_splits);
// At runs of white space; leading and trailing ones give nothing.
std::vector<std::string_view> SplitSpaces(std::string_view text, int64_t max_splits);
std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends);
// As string_view::find, in linear time: a template chooses both strings.
size_t Find(std::string_view text, std::string_view part, size_t from = 0);
// How often `part` occurs without overlap; an empty part occurs between all characters.
size_t CountParts(std::string_view text, std::string_view part);
// At most `max_count` replacements; negative: all.
std::string Replace(std::string_view text, std::string_view from, std::string_view to, int64_t max_count);

// Byte offset of a character's position, or text.size() beyond the end.
size_t ByteOffset(std::string_view text, size_t position);

// The properties of str.isdigit and its like; `kAlnum` is isalnum.
enum class CharClass : uint8_t { kAlpha, kDigit, kAlnum, kSpace, kUpper, kLower };
bool AllAre(std::string_view text, CharClass char_class);

}  // namespace baton::tokenizer::jinja

#endif  // BATON_TOKENIZER_JINJA_TEXT_H_
