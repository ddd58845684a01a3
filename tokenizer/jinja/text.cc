#include "tokenizer/jinja/text.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>

#include "common/utf8.h"

namespace baton::tokenizer::jinja {
namespace {

// The byte offset of the last character of a text that is not empty.
size_t LastCharacter(std::string_view text) {
  size_t i = text.size() - 1;
  while (i > 0 && (static_cast<uint8_t>(text[i]) & 0xC0) == 0x80) --i;
  return i;
}

template <typename Predicate>
std::string_view StripLeftIf(std::string_view text, Predicate strip) {
  size_t offset = 0;
  while (offset < text.size()) {
    size_t next = offset;
    const uint32_t c = NextCodePoint(text, &next);
    if (!strip(c, text.substr(offset, next - offset))) break;
    offset = next;
  }
  return text.substr(offset);
}

template <typename Predicate>
std::string_view StripRightIf(std::string_view text, Predicate strip) {
  while (!text.empty()) {
    const size_t last = LastCharacter(text);
    size_t offset = last;
    const uint32_t c = NextCodePoint(text, &offset);
    if (!strip(c, text.substr(last))) break;
    text = text.substr(0, last);
  }
  return text;
}

utf8proc_category_t Category(uint32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

bool IsLetter(uint32_t c) {
  const utf8proc_category_t category = Category(c);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

// Whether the letter has case. str.title begins a new word after any other character.
bool IsCased(uint32_t c) {
  const utf8proc_category_t category = Category(c);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LT;
}

constexpr uint32_t kSharpS = 0xDF;

void AppendUpper(uint32_t c, std::string* out) {
  if (c == kSharpS) {
    out->append("SS");
  } else {
    AppendUtf8(static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))), out);
  }
}

void AppendTitle(uint32_t c, std::string* out) {
  if (c == kSharpS) {
    out->append("Ss");
  } else {
    AppendUtf8(static_cast<uint32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))), out);
  }
}

void AppendLower(uint32_t c, std::string* out) {
  AppendUtf8(static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), out);
}

bool IsLineEnd(uint32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool IsInClass(uint32_t c, CharClass char_class) {
  switch (char_class) {
    case CharClass::kAlpha:
      return IsLetter(c);
    case CharClass::kDigit:
      return Category(c) == UTF8PROC_CATEGORY_ND;
    case CharClass::kAlnum:
      return IsLetter(c) || Category(c) == UTF8PROC_CATEGORY_ND;
    case CharClass::kSpace:
      return IsSpace(c);
    case CharClass::kUpper:
      return Category(c) != UTF8PROC_CATEGORY_LL && Category(c) != UTF8PROC_CATEGORY_LT;
    case CharClass::kLower:
      return Category(c) != UTF8PROC_CATEGORY_LU && Category(c) != UTF8PROC_CATEGORY_LT;
  }
  return false;
}

}  // namespace

bool IsSpace(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

std::string_view StripLeft(std::string_view text) {
  return StripLeftIf(text, [](uint32_t c, std::string_view) { return IsSpace(c); });
}

std::string_view StripRight(std::string_view text) {
  return StripRightIf(text, [](uint32_t c, std::string_view) { return IsSpace(c); });
}

std::string_view StripLeft(std::string_view text, std::string_view chars) {
  return StripLeftIf(text, [chars](uint32_t, std::string_view c) { return chars.find(c) != std::string_view::npos; });
}

std::string_view StripRight(std::string_view text, std::string_view chars) {
  return StripRightIf(text, [chars](uint32_t, std::string_view c) { return chars.find(c) != std::string_view::npos; });
}

std::string Upper(std::string_view text) {
  std::string out;
  for (size_t offset = 0; offset < text.size();) AppendUpper(NextCodePoint(text, &offset), &out);
  return out;
}

std::string Lower(std::string_view text) {
  std::string out;
  for (size_t offset = 0; offset < text.size();) AppendLower(NextCodePoint(text, &offset), &out);
  return out;
}

std::string Title(std::string_view text) {
  std::string out;
  bool in_word = false;
  for (size_t offset = 0; offset < text.size();) {
    const uint32_t c = NextCodePoint(text, &offset);
    if (in_word) {
      AppendLower(c, &out);
    } else {
      AppendTitle(c, &out);
    }
    in_word = IsCased(c);
  }
  return out;
}

std::string Capitalize(std::string_view text) {
  std::string out;
  for (size_t offset = 0; offset < text.size();) {
    const bool first = offset == 0;
    const uint32_t c = NextCodePoint(text, &offset);
    if (first) {
      AppendTitle(c, &out);
    } else {
      AppendLower(c, &out);
    }
  }
  return out;
}

std::vector<std::string_view> Split(std::string_view text, std::string_view separator, int64_t max_splits) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  while (max_splits != 0) {
    const size_t end = Find(text, separator, begin);
    if (end == std::string_view::npos) break;
    parts.push_back(text.substr(begin, end - begin));
    begin = end + separator.size();
    --max_splits;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::vector<std::string_view> SplitSpaces(std::string_view text, int64_t max_splits) {
  std::vector<std::string_view> parts;
  text = StripLeft(text);
  while (!text.empty()) {
    size_t end = 0;
    while (end < text.size()) {
      size_t next = end;
      if (IsSpace(NextCodePoint(text, &next))) break;
      end = next;
    }
    if (max_splits == 0) end = text.size();
    parts.push_back(text.substr(0, end));
    text = StripLeft(text.substr(end));
    --max_splits;
  }
  return parts;
}

std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t offset = 0; offset < text.size();) {
    const size_t end = offset;
    const uint32_t c = NextCodePoint(text, &offset);
    if (!IsLineEnd(c)) continue;
    if (c == '\r' && offset < text.size() && text[offset] == '\n') ++offset;
    lines.push_back(text.substr(begin, (keep_ends ? offset : end) - begin));
    begin = offset;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

size_t Find(std::string_view text, std::string_view part, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (part.empty()) return from;
  const void* const found = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return found == nullptr ? std::string_view::npos : static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

size_t CountParts(std::string_view text, std::string_view part) {
  if (part.empty()) return CountCodePoints(text) + 1;
  size_t count = 0;
  for (size_t at = Find(text, part); at != std::string_view::npos; at = Find(text, part, at + part.size())) ++count;
  return count;
}

std::string Replace(std::string_view text, std::string_view from, std::string_view to, int64_t max_count) {
  std::string out;
  size_t offset = 0;
  if (from.empty()) {
    // An empty part occurs between all characters and at both ends.
    while (max_count != 0) {
      out.append(to);
      --max_count;
      if (offset == text.size()) return out;
      const size_t begin = offset;
      (void)NextCodePoint(text, &offset);
      out.append(text.substr(begin, offset - begin));
    }
    return out.append(text.substr(offset));
  }
  for (; max_count != 0; --max_count) {
    const size_t found = Find(text, from, offset);
    if (found == std::string_view::npos) break;
    out.append(text.substr(offset, found - offset)).append(to);
    offset = found + from.size();
  }
  return out.append(text.substr(offset));
}

size_t ByteOffset(std::string_view text, size_t position) {
  size_t offset = 0;
  while (position > 0 && offset < text.size()) {
    (void)NextCodePoint(text, &offset);
    --position;
  }
  return offset;
}

bool AllAre(std::string_view text, CharClass char_class) {
  const bool needs_case = char_class == CharClass::kUpper || char_class == CharClass::kLower;
  bool found = !needs_case && !text.empty();
  for (size_t offset = 0; offset < text.size();) {
    const uint32_t c = NextCodePoint(text, &offset);
    if (!IsInClass(c, char_class)) return false;
    found = found || IsCased(c);
  }
  return found;
}

}  // namespace baton::tokenizer::jinja
