// The responses of vLLM's Generate.
#ifndef BATON_GATEWAY_VLLM_ANSWER_H_
#define BATON_GATEWAY_VLLM_ANSWER_H_

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
  // Null for a request that is still to be read.
  std::shared_ptr<const AbortableRequest> abortable;
};

// A stream has a chunk for each delta. Every answer that does not fail ends with `complete`, one that was aborted, too.
class VllmForm final : public router::AnswerForm {
 public:
  explicit VllmForm(VllmAnswer answer) : answer_(std::move(answer)) {}

  bool is_whole() const override { return !answer_.is_stream; }
  std::optional<grpc::ByteBuffer> Begin(const router::GenerationAccepted& accepted) override;
  grpc::ByteBuffer Chunk(const router::GenerationDelta& delta) override;
  router::AnswerEnd End(router::GenerationDelta output, const router::GenerationFinished& finished) override;
  router::AnswerEnd End(const absl::Status& status) override;

 private:
  // With the ids that have come so far.
  vllm::grpc::engine::GenerateResponse Complete(const char* finish_reason) const;

  VllmAnswer answer_;
  uint32_t prompt_tokens_ = 0;
  std::vector<int32_t> ids_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_VLLM_ANSWER_H_
