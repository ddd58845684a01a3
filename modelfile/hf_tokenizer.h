// tokenizer.json, tokenizer_config.json and chat_template.jinja of a Hugging Face directory.
#ifndef BATON_MODELFILE_HF_TOKENIZER_H_
#define BATON_MODELFILE_HF_TOKENIZER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "modelfile/hf_tokenizer_json.h"
#include "modelfile/json_reader.h"
#include "modelfile/tokenizer_spec.h"

namespace baton::modelfile {

// Reads vocabulary, merges, added tokens, and the steps that turn text into tokens. The result has `vocab_size` tokens;
// ids that the file leaves out become unused tokens. INVALID_ARGUMENT names what is damaged. UNIMPLEMENTED names a step
// (normalizer, pre-tokenizer, ...) that Baton does not know, because guessing would change the tokens.
absl::StatusOr<TokenizerSpec> ReadHfTokenizer(const HfTokenizerJson& file, int32_t vocab_size);

// Reads which tokens are special, whether BOS is added, and the chat template. `spec` must come from ReadHfTokenizer.
absl::Status ReadHfTokenizerConfig(const Json& config, TokenizerSpec* spec);

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_HF_TOKENIZER_H_
