// What the metadata of a GGUF file says about the tokenizer, checked for sense.
#ifndef BATON_MODELFILE_GGUF_TOKENIZER_H_
#define BATON_MODELFILE_GGUF_TOKENIZER_H_

#include "absl/status/statusor.h"
#include "modelfile/gguf_document.h"
#include "modelfile/tokenizer_spec.h"

namespace baton::modelfile {

// INVALID_ARGUMENT names what is damaged. A file without tokenizer.ggml.model has no tokenizer: the result's `model` is
// empty.
absl::StatusOr<TokenizerSpec> ReadGgufTokenizer(const GgufDocument& document);

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_GGUF_TOKENIZER_H_
