// A tokenizer small enough to reason about, for tests and fuzzers.
#ifndef BATON_TOKENIZER_TINY_SPEC_H_
#define BATON_TOKENIZER_TINY_SPEC_H_

#include "modelfile/model_file.h"

namespace baton::tokenizer {

// Ids: 0 <|end|> (EOS), 1 <|start|> (BOS), 2 <|start|>x (all control tokens), 3 "  \n" (user-defined), then every byte
// in order from kTinyFirstByteId, then merges: "he", "ll", "hell", "hello", " hello" and "\xE2\x82" (two thirds of a
// euro sign). The pre-tokenizer is smollm's.
inline constexpr int32_t kTinyFirstByteId = 4;
modelfile::TokenizerSpec TinySpec();

}  // namespace baton::tokenizer

#endif  // BATON_TOKENIZER_TINY_SPEC_H_
