#include "tokenizer/rendered_chat.h"

#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "common/status.h"
#include "common/utf8.h"
#include "nlohmann/json.hpp"

namespace baton::tokenizer {
namespace {

using nlohmann::ordered_json;

// Unicode reserves these for use within a program.
constexpr uint32_t kFirstMark = 0xFDD0;
constexpr uint32_t kLastMark = 0xFDEF;

// The offset of the character before the end of `text`, which is not empty and valid UTF-8.
size_t LastCharacter(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

// Whether the template's own code, and not a client, chose the variable's value.
bool IsOwnVariable(const std::string& name) {
  return name == "add_generation_prompt" || name == "bos_token" || name == "eos_token";
}

// Calls `visit` with each string below `value`, the names of members included, and puts what it returns in its place.
template <typename Visit>
void ChangeTexts(ordered_json& value, const Visit& visit) {
  if (value.is_string()) {
    value = visit(value.get_ref<const std::string&>());
  } else if (value.is_array()) {
    for (ordered_json& item : value) ChangeTexts(item, visit);
  } else if (value.is_object()) {
    ordered_json changed = ordered_json::object();
    for (auto& [name, member] : value.items()) {
      ChangeTexts(member, visit);
      changed[visit(name)] = std::move(member);
    }
    value = std::move(changed);
  }
}

template <typename Visit>
void ForEachText(const ordered_json& value, const Visit& visit) {
  if (value.is_string()) return visit(value.get_ref<const std::string&>());
  if (!value.is_structured()) return;
  for (const auto& [name, member] : value.items()) {
    if (value.is_object()) visit(name);
    ForEachText(member, visit);
  }
}

template <typename Visit>
void ForEachWord(const ordered_json& variables, const Visit& visit) {
  for (const auto& [name, value] : variables.items()) {
    if (!IsOwnVariable(name)) ForEachText(value, visit);
  }
}

// A character that is in none of the words; empty when there is none.
std::string FindMark(const ordered_json& variables) {
  for (uint32_t code_point = kFirstMark; code_point <= kLastMark; ++code_point) {
    std::string mark;
    AppendUtf8(code_point, &mark);
    bool is_free = true;
    ForEachWord(variables, [&](const std::string& text) { is_free &= text.find(mark) == std::string::npos; });
    if (is_free) return mark;
  }
  return {};
}

// Puts `mark` behind the first character of each spelling of a special token.
std::string WithMarks(std::string_view text, const std::vector<size_t>& spellings, std::string_view mark) {
  std::string marked;
  size_t done = 0;
  for (const size_t begin : spellings) {
    const size_t behind = begin + ClassifyUtf8Prefix(text.substr(begin)).bytes;
    marked.append(text.substr(done, behind - done));
    marked.append(mark);
    done = behind;
  }
  marked.append(text.substr(done));
  return marked;
}

// Takes the marks out of what was rendered. The character before each begins a spelling.
RenderedChat TakeMarks(std::string_view rendered, std::string_view mark) {
  RenderedChat chat;
  size_t done = 0;
  for (size_t at = rendered.find(mark); at != std::string_view::npos; at = rendered.find(mark, done)) {
    chat.text.append(rendered.substr(done, at - done));
    done = at + mark.size();
    if (!chat.text.empty()) chat.literal_at.push_back(LastCharacter(chat.text));
  }
  chat.text.append(rendered.substr(done));
  return chat;
}

}  // namespace

absl::StatusOr<RenderedChat> RenderChat(const ChatTemplate& chat_template, const Tokenizer& tokenizer, ChatInput chat) {
  chat.add_generation_prompt = true;
  chat.bos_token = tokenizer.TokenText(tokenizer.bos_id());
  chat.eos_token = tokenizer.TokenText(tokenizer.eos_id());
  BATON_ASSIGN_OR_RETURN(ordered_json variables, ChatVariables(chat));
  bool has_spellings = false;
  ForEachWord(variables,
              [&](const std::string& text) { has_spellings |= !tokenizer.FindSpecialSpellings(text).empty(); });
  std::string mark;
  if (has_spellings) {
    mark = FindMark(variables);
    if (mark.empty()) {
      return absl::InvalidArgumentError("the messages spell special tokens and have every character of U+FDD0..U+FDEF");
    }
    for (auto& [name, value] : variables.items()) {
      if (IsOwnVariable(name)) continue;
      ChangeTexts(value,
                  [&](const std::string& text) { return WithMarks(text, tokenizer.FindSpecialSpellings(text), mark); });
    }
  }
  BATON_ASSIGN_OR_RETURN(std::string text, chat_template.Render(variables));
  if (!has_spellings) return RenderedChat{.text = std::move(text), .literal_at = {}};
  return TakeMarks(text, mark);
}

}  // namespace baton::tokenizer
