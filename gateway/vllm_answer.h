// The responses of vLLM's Generate.
#ifndef BATON_GATEWAY_VLLM_ANSWER_H_
#define BATON_GATEWAY_VLLM_ANSWER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gateway/vllm_aborts.h"
#include "router/answer_form.h"
#include "vllm/engine.pb.h"

namespace baton::gateway {

struct VllmAnswer {
  bool is_stream = false;
  // The request's stop strings.
  std::vector<std::string> stop;
  // At least 1.
  int32_t choices = 1;
  // The log-probabilities of the prompt, if there are any, come with likely tokens in each place.
  bool has_prompt_top = false;
  // Null for a request that is still to be read.
  std::shared_ptr<const AbortableRequest> abortable;
};

// A stream has a chunk for each delta. Every choice of an answer that does not fail ends with a `complete` of its own,
// one that was aborted, too.
class VllmForm final : public router::AnswerForm {
 public:
  explicit VllmForm(VllmAnswer answer) : answer_(std::move(answer)), choices_(static_cast<size_t>(answer_.choices)) {}

  bool is_whole() const override { return !answer_.is_stream; }
  bool splits_ends() const override { return true; }
  std::optional<grpc::ByteBuffer> Begin(const router::GenerationAccepted& accepted) override;
  grpc::ByteBuffer Chunk(const router::GenerationDelta& delta) override;
  router::AnswerEnd End(absl::Span<const router::GenerationDelta> outputs,
                        const router::GenerationFinished& finished) override;
  router::AnswerEnd End(const absl::Status& status) override;

 private:
  struct Choice {
    // Those that have come so far.
    std::vector<int32_t> ids;
    bool has_ended = false;
  };

  // The choice ends, with `output` as its last.
  grpc::ByteBuffer Complete(size_t index, const router::GenerationDelta& output, const router::ChoiceEnd& end);
  vllm::grpc::engine::GenerateResponse Complete(size_t index, const char* finish_reason) const;
  void FillPrompt(const router::GenerationDelta& delta, vllm::grpc::engine::InputLogProbs* proto) const;

  VllmAnswer answer_;
  uint32_t prompt_tokens_ = 0;
  // By index.
  std::vector<Choice> choices_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_VLLM_ANSWER_H_
