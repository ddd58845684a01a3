// OpenAI's /v1/embeddings: the requests and their answers. docs/embeddings.md says what an embedding is made of.
#ifndef BATON_GATEWAY_OPENAI_EMBEDDINGS_H_
#define BATON_GATEWAY_OPENAI_EMBEDDINGS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gateway/answer_writer.h"
#include "router/generation.h"

namespace baton::gateway {

struct EmbeddingsRequest {
  // Without id, times and trace. Each prompt has one output token, which nobody wants, with its embedding.
  router::GenerationRequest generation;
  // The floats of an embedding as the base64 of their little-endian bytes, not as JSON's numbers.
  bool is_base64 = false;
};

// `hidden_size` is the model's: how many values an embedding has. The errors are for clients, as those of
// RequestReader.
absl::StatusOr<EmbeddingsRequest> ReadEmbeddingsRequest(std::string_view body, int32_t hidden_size);

// Writes each embedding with the length 1. There are no streams of embeddings.
class EmbeddingsWriter final : public AnswerWriter {
 public:
  EmbeddingsWriter(std::string model, bool is_base64) : model_(std::move(model)), is_base64_(is_base64) {}

  std::string Chunk(const router::GenerationDelta& delta) override;
  std::string End(const router::GenerationFinished& finished) override;
  std::string End(const absl::Status& status) override;
  std::string Whole(absl::Span<const router::GenerationDelta> outputs,
                    const router::GenerationFinished& finished) override;

 private:
  const std::string model_;
  const bool is_base64_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_OPENAI_EMBEDDINGS_H_
