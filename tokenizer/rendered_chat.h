// A chat as its template renders it, in which the words of the chat stay text. Without this, a user who writes
// <|im_end|> would end the turn and could open one of the system's.
#ifndef BATON_TOKENIZER_RENDERED_CHAT_H_
#define BATON_TOKENIZER_RENDERED_CHAT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace baton::tokenizer {

struct RenderedChat {
  std::string text;
  // EncodeOptions::literal_at: where the words of the chat spell special tokens.
  std::vector<size_t> literal_at;
};

// Renders the chat and the begin of an answer, with the written forms of the tokenizer's BOS and EOS. A chat that
// spells no special token gives the text of ChatTemplate::RenderChat and no offset.
//
// The words of a chat are its messages with their calls, the tools and the values of further variables. Those that do
// are rendered with a mark within each spelling, which is taken out of the text again. The template thus still sees
// what it may look for (user-defined tokens such as </think>). A spelling that ends with a message is marked too,
// because a template may put something behind it that completes it.
//
// Errors are those of RenderChat. INVALID_ARGUMENT also for a chat that spells special tokens and has all 32
// noncharacters from U+FDD0 on, of which one is the mark.
absl::StatusOr<RenderedChat> RenderChat(const ChatTemplate& chat_template, const Tokenizer& tokenizer, ChatInput chat);

}  // namespace baton::tokenizer

#endif  // BATON_TOKENIZER_RENDERED_CHAT_H_
