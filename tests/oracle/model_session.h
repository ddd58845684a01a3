// The real model behind one sequence, for tests that compare numbers.
#ifndef BATON_TESTS_ORACLE_MODEL_SESSION_H_
#define BATON_TESTS_ORACLE_MODEL_SESSION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/cpu_model.h"

namespace baton::tests {

class ModelSession {
 public:
  // The default model of the store; NOT_FOUND says how to fetch it.
  static absl::StatusOr<std::unique_ptr<ModelSession>> Open(engine::Numerics numerics, int32_t max_tokens);

  // Runs `tokens` from position 0. `visit` sees the logits after each of them, in order.
  void Run(absl::Span<const int32_t> tokens, const std::function<void(size_t, absl::Span<const float>)>& visit);

 private:
  ModelSession(std::unique_ptr<engine::ModelRunner> runner, int32_t max_tokens);

  std::unique_ptr<engine::ModelRunner> runner_;
  std::vector<BlockId> blocks_;
  struct Free {
    void operator()(uint8_t* memory) const;
  };
  std::unique_ptr<uint8_t[], Free> pool_;
  std::vector<float> logits_;
};

// -log p(target) under softmax(logits).
double NegativeLogLikelihood(absl::Span<const float> logits, int32_t target);

}  // namespace baton::tests

#endif  // BATON_TESTS_ORACLE_MODEL_SESSION_H_
