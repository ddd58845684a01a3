// The steps of tokenizer.json around its vocabulary: normalizer, pre-tokenizer, decoder, post-processor.
#ifndef BATON_MODELFILE_HF_TOKENIZER_STEPS_H_
#define BATON_MODELFILE_HF_TOKENIZER_STEPS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "modelfile/json_reader.h"
#include "modelfile/tokenizer_spec.h"

namespace baton::modelfile {

inline constexpr std::string_view kTokenizerFile = "tokenizer.json";

// Sets pre_tokenizer for byte-level BPE and space_prefix for SentencePiece-style BPE. `fields` is the whole file.
// UNIMPLEMENTED for any step that may give other tokens than Baton's tokenizer.
absl::Status ReadByteLevelSteps(const JsonFields& fields, TokenizerSpec* spec);
absl::Status ReadSentencePieceSteps(const JsonFields& fields, TokenizerSpec* spec);

// The text of the special token that the post-processor puts before every text; empty if none. UNIMPLEMENTED when it
// adds anything else.
absl::StatusOr<std::string> ReadAddedBos(const JsonFields& fields);

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_HF_TOKENIZER_STEPS_H_
