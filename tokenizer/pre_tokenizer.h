// Splits text into the words that BPE merges, by the patterns of a model family.
#ifndef BATON_TOKENIZER_PRE_TOKENIZER_H_
#define BATON_TOKENIZER_PRE_TOKENIZER_H_

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton::tokenizer {

// One row of the table of families (pre_tokenizer_table.cc).
struct PreTokenizerFamily {
  // GGUF's tokenizer.ggml.pre.
  std::string_view name;
  // Each stage cuts every piece of the stage before it into matches and the text between them. A stage sees only its
  // own piece, so \s+(?!\S) matches at the end of a piece. An empty pattern is no stage.
  std::string_view stages[3];
  // A word that is a token is taken without merging.
  bool ignore_merges = false;
};

// Null when the family is not in the table.
const PreTokenizerFamily* FindPreTokenizerFamily(std::string_view name);

// Immutable and thread-safe after Create.
class PreTokenizer {
 public:
  // Compiles the patterns (PCRE2 with JIT). INTERNAL if one does not compile.
  static absl::StatusOr<std::unique_ptr<PreTokenizer>> Create(const PreTokenizerFamily& family);
  ~PreTokenizer();
  PreTokenizer(const PreTokenizer&) = delete;
  PreTokenizer& operator=(const PreTokenizer&) = delete;

  // Appends the words of `text`, in order and without gaps, as views into it. `text` must be valid UTF-8.
  // RESOURCE_EXHAUSTED when a pattern passes PCRE2's match limit.
  absl::Status Split(std::string_view text, std::vector<std::string_view>* words) const;

 private:
  PreTokenizer() = default;
  struct Stage;
  std::vector<std::unique_ptr<Stage>> stages_;
};

}  // namespace baton::tokenizer

#endif  // BATON_TOKENIZER_PRE_TOKENIZER_H_
