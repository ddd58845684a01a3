#include "tokenizer/tiny_spec.h"

#include <string>

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

}  // namespace baton::tokenizer
