// What a tokenizer is built from, whichever kind of file it comes from.
#ifndef BATON_MODELFILE_TOKENIZER_SPEC_H_
#define BATON_MODELFILE_TOKENIZER_SPEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace baton::modelfile {

// GGUF's token types.
enum class TokenType : uint8_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

// Where a SentencePiece-style tokenizer puts a space: nowhere, before a text that does not begin with one, or before
// every piece of the text between special tokens.
enum class SpacePrefix : uint8_t { kNone, kFirst, kEach };

struct TokenizerSpec {
  std::string model;  // "gpt2" is byte-level BPE, "llama" SentencePiece-style BPE; empty: there is none
  // The file or the key in which a model of this kind has its tokenizer, for the error when it lacks it.
  std::string source = "a tokenizer";
  std::string pre_tokenizer;  // for byte-level BPE: "smollm", "llama-bpe", ...
  std::vector<std::string> tokens;
  std::vector<TokenType> token_types;  // as many as tokens
  std::vector<std::string> merges;     // "left right", best first
  std::vector<float> scores;           // "llama" without merges: as many as tokens, greater is better
  int32_t bos_id = -1;                 // -1: none
  int32_t eos_id = -1;
  std::vector<int32_t> eos_ids;  // every token that ends an answer, eos_id among them
  int32_t unknown_id = -1;
  int32_t padding_id = -1;
  bool add_bos = false;
  SpacePrefix space_prefix = SpacePrefix::kNone;
  // Whether a word that is a token is taken without merging. None: as the pre-tokenizer's family does.
  std::optional<bool> ignore_merges;
  std::string chat_template;  // Jinja; empty: none
};

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_TOKENIZER_SPEC_H_
