// The responses of KServe's ModelInfer and ModelStreamInfer.
#ifndef BATON_GATEWAY_KSERVE_ANSWER_H_
#define BATON_GATEWAY_KSERVE_ANSWER_H_

#include <cstdint>
#include <string>
#include <utility>

#include "gateway/kserve_request.h"
#include "inference/kserve.pb.h"
#include "router/answer_form.h"

namespace baton::gateway {

// What the responses to one request say beside its output.
struct KserveAnswer {
  KserveMethod method = KserveMethod::kInfer;
  std::string model;
  // The client's name of the request.
  std::string id;
  // The rest is as in KserveRequest.
  bool is_stream = false;
  bool wants_empty_final = false;
  std::string echo;
  KserveOutputs outputs;
};

// A stream has a response for each delta, and a last one where the client asks for something that only the end tells.
// In ModelStreamInfer an error is a message, so that the call goes on with its other requests.
class KserveForm final : public router::AnswerForm {
 public:
  explicit KserveForm(KserveAnswer answer) : answer_(std::move(answer)) {}

  bool is_whole() const override { return !answer_.is_stream; }
  std::optional<grpc::ByteBuffer> Begin(const router::GenerationAccepted& accepted) override;
  grpc::ByteBuffer Chunk(const router::GenerationDelta& delta) override;
  router::AnswerEnd End(absl::Span<const router::GenerationDelta> outputs,
                        const router::GenerationFinished& finished) override;
  router::AnswerEnd End(const absl::Status& status) override;

 private:
  // Without outputs.
  inference::ModelInferResponse Response(bool is_final) const;
  void AddOutputs(const router::GenerationDelta& delta, const char* finish_reason,
                  inference::ModelInferResponse* response) const;
  grpc::ByteBuffer Wrap(inference::ModelInferResponse response) const;

  KserveAnswer answer_;
  int32_t input_tokens_ = 0;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_KSERVE_ANSWER_H_
