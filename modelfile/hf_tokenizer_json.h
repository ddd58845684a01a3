// tokenizer.json as JSON, with vocabulary and merges kept separately.
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

// model.vocab and model.merges have hundreds of thousands of entries. As JSON values they would take most of the time
// of opening a model.
struct HfTokenizerJson {
  // The file without the two members below, if these are set.
  Json json;
  // The tokens of model.vocab and their ids, in the file's order.
  std::optional<std::vector<std::pair<std::string, uint64_t>>> vocab = {};
  // model.merges as "left right", best first. A file may write them in two forms.
  std::optional<std::vector<std::string>> merges = {};
};

// Errors are those of ParseJsonObject. A vocabulary or merges in an unusual form stay in `json`.
absl::StatusOr<HfTokenizerJson> ParseHfTokenizer(std::string_view text);

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_HF_TOKENIZER_JSON_H_
