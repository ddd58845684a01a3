// A real model behind one sequence, for tests that compare numbers, and what they share.
#ifndef BATON_TESTS_ORACLE_MODEL_SESSION_H_
#define BATON_TESTS_ORACLE_MODEL_SESSION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/kv_pool.h"
#include "engine/cpu_model.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace baton::tests {

class ModelSession {
 public:
  // Opens a model of the store; NOT_FOUND says how to fetch it.
  static absl::StatusOr<std::unique_ptr<ModelSession>> Open(std::string_view model, engine::CpuModelOptions options,
                                                            int32_t max_tokens);
  // Opens any file.
  static absl::StatusOr<std::unique_ptr<ModelSession>> Load(const modelfile::ModelFile& file,
                                                            engine::CpuModelOptions options, int32_t max_tokens);

  using Visitor = std::function<void(size_t position, absl::Span<const float> logits)>;
  // Runs `tokens` from position 0. `visit` sees the logits after each of them from position `first_visited` on, in
  // order.
  void Run(absl::Span<const int32_t> tokens, size_t first_visited, const Visitor& visit);

 private:
  ModelSession(std::unique_ptr<engine::ModelRunner> runner, int32_t max_tokens);

  std::unique_ptr<engine::ModelRunner> runner_;
  const int32_t block_stride_;
  // Blocks of all groups: every position keeps its own.
  std::vector<BlockId> blocks_;
  struct Free {
    void operator()(uint8_t* memory) const;
  };
  std::unique_ptr<uint8_t[], Free> memory_;
  std::optional<HostKvPool> pool_;
  std::vector<float> logits_;
};

// Models of the store that have recorded references, as the parameter of a test, and the name of such a test.
inline auto RecordedModels() { return testing::Values("smollm2-135m-instruct", "gemma-3-270m"); }
std::string ModelTestName(const testing::TestParamInfo<const char*>& info);

// tests/data/KIND/MODEL.json.
nlohmann::json ReadOracle(std::string_view kind, std::string_view model);

// -log p(target) under softmax(logits).
double NegativeLogLikelihood(absl::Span<const float> logits, int32_t target);

}  // namespace baton::tests

#endif  // BATON_TESTS_ORACLE_MODEL_SESSION_H_
