#include "gateway/json_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "router/error_details.h"

namespace baton::gateway {
namespace {

constexpr std::string_view kSpaces = " \t\r\n";

// Walks along the values of one list, or the members of one object.
class TextWalk {
 public:
  // `bracket`: what opens it. A text that does not begin with it has nothing.
  TextWalk(std::string_view text, char bracket) : text_(text) {
    SkipSpaces();
    if (Peek() != bracket) at_ = text_.size();
    ++at_;
    SkipSpaces();
  }

  bool at_end() const { return at_ >= text_.size() || text_[at_] == ']' || text_[at_] == '}'; }
  // The value here, and on to what follows it and the comma or colon behind it.
  std::string_view Take() {
    const size_t begin = at_;
    SkipValue();
    const std::string_view value = text_.substr(begin, at_ - begin);
    SkipSpaces();
    if (Peek() == ',' || Peek() == ':') ++at_;
    SkipSpaces();
    return value;
  }

 private:
  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void SkipSpaces() { at_ = std::min(text_.find_first_not_of(kSpaces, at_), text_.size()); }
  void SkipString() {
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\') ++at_;
    }
    ++at_;
  }
  void SkipValue() {
    size_t depth = 0;
    do {
      const char c = Peek();
      if (c == '"') {
        SkipString();
      } else if (c == '[' || c == '{' || c == ']' || c == '}') {
        depth = c == '[' || c == '{' ? depth + 1 : depth - 1;
        ++at_;
      } else {
        // A number or a word, or what stands between values.
        at_ = std::min(text_.find_first_of(depth == 0 ? " \t\r\n,:]}" : "[]{}\"", at_), text_.size());
      }
    } while (depth > 0 && at_ < text_.size());
    at_ = std::min(at_, text_.size());
  }

  const std::string_view text_;
  size_t at_ = 0;
};

bool IsName(std::string_view literal, std::string_view name) {
  if (literal.size() < 2) return false;
  if (literal.find('\\') == std::string_view::npos) return literal.substr(1, literal.size() - 2) == name;
  const nlohmann::json parsed = nlohmann::json::parse(literal, nullptr, /*allow_exceptions=*/false);
  return parsed.is_string() && parsed.get_ref<const std::string&>() == name;
}

// Calls `visit` with each character outside of strings, and with each string as a whole.
template <typename Visit>
void ForEachWord(std::string_view text, const Visit& visit) {
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    if (text[at] == '"') {
      while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, text.size());
    }
    visit(text.substr(at, end - at));
    at = end;
  }
}

// How many members the largest object has.
size_t LargestObject(std::string_view text) {
  struct Open {
    bool is_object;
    size_t members = 1;
  };
  std::vector<Open> open;
  size_t largest = 0;
  ForEachWord(text, [&](std::string_view word) {
    const char c = word.front();
    if (c == '{' || c == '[') open.push_back({.is_object = c == '{'});
    if (c == ',' && !open.empty() && open.back().is_object) largest = std::max(largest, ++open.back().members);
    if ((c == '}' || c == ']') && !open.empty()) open.pop_back();
  });
  return largest;
}

}  // namespace

std::string_view JsonMember(std::string_view object, std::string_view name) {
  std::string_view found;
  for (TextWalk walk(object, '{'); !walk.at_end();) {
    const std::string_view literal = walk.Take();
    const std::string_view value = walk.Take();
    if (IsName(literal, name)) found = value;
  }
  return found;
}

std::vector<std::string_view> JsonItems(std::string_view list) {
  std::vector<std::string_view> items;
  for (TextWalk walk(list, '['); !walk.at_end();) items.push_back(walk.Take());
  return items;
}

std::string CompactJson(std::string_view text) {
  std::string compact;
  ForEachWord(text, [&compact](std::string_view word) {
    if (kSpaces.find(word.front()) == std::string_view::npos) compact += word;
  });
  return compact;
}

absl::StatusOr<nlohmann::ordered_json> ParseOrdered(std::string_view text, const std::string& field) {
  if (LargestObject(text) > kMaxOrderedMembers) {
    return router::FieldViolation(field,
                                  absl::StrCat("an object in it has more than ", kMaxOrderedMembers, " members"));
  }
  nlohmann::ordered_json parsed = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) return router::FieldViolation(field, "is no JSON");
  return parsed;
}

}  // namespace baton::gateway
