// A tokenizer small enough to reason about, for tests and fuzzers.
#ifndef BATON_TOKENIZER_TESTING_TINY_SPEC_H_
#define BATON_TOKENIZER_TESTING_TINY_SPEC_H_

#include "modelfile/tokenizer_spec.h"

namespace baton::tokenizer {

// Ids: 0 <|end|> (EOS), 1 <|start|> (BOS), 2 <|start|>x (all control tokens), 3 "  \n" (user-defined), then every byte
// in order from kTinyFirstByteId, then merges: "he", "ll", "hell", "hello", " hello" and "\xE2\x82" (two thirds of a
// euro sign). The pre-tokenizer is smollm's.
inline constexpr int32_t kTinyFirstByteId = 4;
modelfile::TokenizerSpec TinySpec();

// A SentencePiece-style tokenizer with scores and no merges. Ids: 0 <unk>, 1 <bos>, 2 <eos> (control), 3 a run of two
// spaces and 4 "\n\n" (user-defined), then every byte as "<0x..>" from kTinyFirstByteTokenId, then the written space,
// "h", "e", "l", "o", "\n", "he", "ll", "hell", "hello" and " hello".
inline constexpr int32_t kTinyFirstByteTokenId = 5;
inline constexpr int32_t kTinyWrittenSpaceId = kTinyFirstByteTokenId + 256;
modelfile::TokenizerSpec TinyPieceSpec();

}  // namespace baton::tokenizer

#endif  // BATON_TOKENIZER_TESTING_TINY_SPEC_H_
