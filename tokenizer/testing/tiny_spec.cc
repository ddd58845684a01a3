#include "tokenizer/testing/tiny_spec.h"

#include <string>

#include "absl/strings/str_format.h"
#include "tokenizer/bpe.h"

namespace baton::tokenizer {

using modelfile::TokenType;

modelfile::TokenizerSpec TinySpec() {
  modelfile::TokenizerSpec spec;
  spec.model = "gpt2";
  spec.pre_tokenizer = "smollm";
  spec.eos_id = 0;
  spec.bos_id = 1;
  spec.add_bos = true;
  spec.tokens = {"<|end|>", "<|start|>", "<|start|>x", "  \n"};
  spec.token_types = {TokenType::kControl, TokenType::kControl, TokenType::kControl, TokenType::kUserDefined};
  for (int b = 0; b < 256; ++b) spec.tokens.push_back(BytesToByteLevel(std::string(1, static_cast<char>(b))));
  const char* const merges[][2] = {{"h", "e"},    {"l", "l"},     {"he", "ll"},
                                   {"hell", "o"}, {" ", "hello"}, {"\xE2", "\x82"}};
  for (const auto& [left, right] : merges) {
    spec.merges.push_back(BytesToByteLevel(left) + " " + BytesToByteLevel(right));
    spec.tokens.push_back(BytesToByteLevel(left) + BytesToByteLevel(right));
  }
  spec.token_types.resize(spec.tokens.size(), TokenType::kNormal);
  return spec;
}

modelfile::TokenizerSpec TinyPieceSpec() {
  modelfile::TokenizerSpec spec;
  spec.model = "llama";
  spec.unknown_id = 0;
  spec.bos_id = 1;
  spec.eos_id = 2;
  spec.add_bos = true;
  spec.tokens = {"<unk>", "<bos>", "<eos>", "  ", "\n\n"};
  spec.token_types = {TokenType::kUnknown, TokenType::kControl, TokenType::kControl, TokenType::kUserDefined,
                      TokenType::kUserDefined};
  for (int b = 0; b < 256; ++b) spec.tokens.push_back(absl::StrFormat("<0x%02X>", b));
  spec.token_types.resize(spec.tokens.size(), TokenType::kByte);
  spec.scores.assign(spec.tokens.size(), 0.0f);
  for (const char* piece :
       {"\xE2\x96\x81", "h", "e", "l", "o", "\n", "he", "ll", "hell", "hello", "\xE2\x96\x81hello"}) {
    spec.tokens.push_back(piece);
    spec.scores.push_back(-static_cast<float>(spec.tokens.size()));
  }
  spec.token_types.resize(spec.tokens.size(), TokenType::kNormal);
  return spec;
}

}  // namespace baton::tokenizer
