// The responses of KServe's ModelInfer and ModelStreamInfer.
#ifndef BATON_GATEWAY_KSERVE_ANSWER_H_
#define BATON_GATEWAY_KSERVE_ANSWER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "gateway/kserve_request.h"
#include "inference/kserve.pb.h"
#include "router/answer_form.h"
#include "tokenizer/tokenizer.h"

namespace baton::gateway {

// What Triton's backend says of a finish reason while the output goes on.
inline constexpr char kNoFinish[] = "None";

// What the responses to one request say beside its output.
struct KserveAnswer {
  KserveMethod method = KserveMethod::kInfer;
  std::string model;
  // The client's name of the request.
  std::string id;
  // At least 1.
  int32_t choices = 1;
  // Outlives the answer. Null for a request that is still to be read.
  const tokenizer::Tokenizer* tokenizer = nullptr;
  // The rest is as in KserveRequest.
  bool is_stream = false;
  bool wants_empty_final = false;
  bool has_logprobs = false;
  std::string echo;
  KserveOutputs outputs;
};

// A stream has a response for each delta, and a last one where the client asks for something that only the end tells.
// Each has an element for every choice. In ModelStreamInfer an error is a message, so that the call goes on with its
// other requests.
class KserveForm final : public router::AnswerForm {
 public:
  explicit KserveForm(KserveAnswer answer)
      : answer_(std::move(answer)), choices_(static_cast<size_t>(answer_.choices)) {}

  bool is_whole() const override { return !answer_.is_stream; }
  std::optional<grpc::ByteBuffer> Begin(const router::GenerationAccepted& accepted) override;
  grpc::ByteBuffer Chunk(const router::GenerationDelta& delta) override;
  router::AnswerEnd End(absl::Span<const router::GenerationDelta> outputs,
                        const router::GenerationFinished& finished) override;
  router::AnswerEnd End(const absl::Status& status) override;

 private:
  // What a choice has said so far.
  struct Choice {
    double cumulative_logprob = 0;
    const char* finish = kNoFinish;
  };
  // The next output of each choice, in order.
  using Deltas = absl::InlinedVector<const router::GenerationDelta*, 1>;

  void Count(size_t choice, const router::GenerationDelta& delta);
  // Without outputs.
  inference::ModelInferResponse Response(bool is_final) const;
  void AddOutputs(const Deltas& deltas, inference::ModelInferResponse* response) const;
  void AddLogprobs(const Deltas& deltas, inference::ModelInferResponse* response) const;
  void AddTokens(const Deltas& deltas, inference::ModelInferResponse* response) const;
  std::string LogprobsOf(const router::GenerationDelta& delta) const;
  grpc::ByteBuffer Wrap(inference::ModelInferResponse response) const;

  KserveAnswer answer_;
  int32_t input_tokens_ = 0;
  // By index.
  std::vector<Choice> choices_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_KSERVE_ANSWER_H_
