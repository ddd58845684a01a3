#include "tokenizer/rendered_chat.h"

#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "common/status.h"
#include "common/utf8.h"

namespace baton::tokenizer {
namespace {

// Unicode reserves these for use within a program.
constexpr uint32_t kFirstMark = 0xFDD0;
constexpr uint32_t kLastMark = 0xFDEF;

// The offset of the character before the end of `text`, which is not empty and valid UTF-8.
size_t LastCharacter(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

template <typename Visit>
void ForEachText(std::vector<ChatMessage>& messages, Visit visit) {
  for (ChatMessage& message : messages) {
    visit(message.role);
    visit(message.content);
  }
}

// A character that is in none of the messages; empty when there is none.
std::string FindMark(std::vector<ChatMessage>& messages) {
  for (uint32_t code_point = kFirstMark; code_point <= kLastMark; ++code_point) {
    std::string mark;
    AppendUtf8(code_point, &mark);
    bool is_free = true;
    ForEachText(messages, [&](const std::string& text) { is_free &= text.find(mark) == std::string::npos; });
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

absl::StatusOr<RenderedChat> RenderChat(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                                        std::vector<ChatMessage> messages) {
  bool has_spellings = false;
  ForEachText(messages,
              [&](const std::string& text) { has_spellings |= !tokenizer.FindSpecialSpellings(text).empty(); });
  std::string mark;
  if (has_spellings) {
    mark = FindMark(messages);
    if (mark.empty()) {
      return absl::InvalidArgumentError("the messages spell special tokens and have every character of U+FDD0..U+FDEF");
    }
    ForEachText(messages,
                [&](std::string& text) { text = WithMarks(text, tokenizer.FindSpecialSpellings(text), mark); });
  }
  BATON_ASSIGN_OR_RETURN(std::string text,
                         chat_template.RenderChat({.messages = std::move(messages),
                                                   .add_generation_prompt = true,
                                                   .bos_token = tokenizer.TokenText(tokenizer.bos_id()),
                                                   .eos_token = tokenizer.TokenText(tokenizer.eos_id())}));
  if (!has_spellings) return RenderedChat{.text = std::move(text), .literal_at = {}};
  return TakeMarks(text, mark);
}

}  // namespace baton::tokenizer
