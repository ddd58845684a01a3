// tokenizer.json as it was read, vocabulary and merges apart.
#ifndef BATON_MODELFILE_HF_TOKENIZER_JSON_H_
#define BATON_MODELFILE_HF_TOKENIZER_JSON_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "modelfile/json_reader.h"

namespace baton::modelfile {

// As JSON values the hundreds of thousands of entries of model.vocab and model.merges would take most of the time in
// which a model is opened.
struct HfTokenizerJson {
  // Without the two members below, where these are set.
  Json json;
  // model.vocab, in the file's order: tokens and their ids.
  std::optional<std::vector<std::pair<std::string, uint64_t>>> vocab = {};
  // model.merges, best first: "left right", whichever of its two forms the file uses.
  std::optional<std::vector<std::string>> merges = {};
};

// INVALID_ARGUMENT as of ParseJsonObject. A vocabulary or merges of another form than the usual ones stay in `json`.
absl::StatusOr<HfTokenizerJson> ParseHfTokenizer(std::string_view text);

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_HF_TOKENIZER_JSON_H_
