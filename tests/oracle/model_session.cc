#include "tests/oracle/model_session.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <string>
#include <utility>

#include "common/status.h"

namespace baton::tests {
namespace {

constexpr int32_t kChunkTokens = 128;
constexpr size_t kAlignment = 64;

}  // namespace

void ModelSession::Free::operator()(uint8_t* memory) const { std::free(memory); }

absl::StatusOr<std::unique_ptr<ModelSession>> ModelSession::Open(std::string_view model,
                                                                 engine::CpuModelOptions options, int32_t max_tokens) {
  BATON_ASSIGN_OR_RETURN(const std::string path, modelfile::ResolveModel(model));
  BATON_ASSIGN_OR_RETURN(const auto file, modelfile::OpenModelFile(path));
  return Load(*file, options, max_tokens);
}

absl::StatusOr<std::unique_ptr<ModelSession>> ModelSession::Load(const modelfile::ModelFile& file,
                                                                 engine::CpuModelOptions options, int32_t max_tokens) {
  options.max_rows = kChunkTokens;
  BATON_ASSIGN_OR_RETURN(auto runner, engine::LoadCpuModel(file, options));
  return std::unique_ptr<ModelSession>(new ModelSession(std::move(runner), max_tokens));
}

ModelSession::ModelSession(std::unique_ptr<engine::ModelRunner> runner, int32_t max_tokens)
    : runner_(std::move(runner)),
      block_stride_(BlocksForTokens(max_tokens)),
      blocks_(static_cast<size_t>(runner_->kv_layout().groups().count() * block_stride_)) {
  std::iota(blocks_.begin(), blocks_.end(), 0);
  const size_t bytes = blocks_.size() * runner_->kv_layout().block_bytes();
  memory_.reset(
      static_cast<uint8_t*>(std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment)));
  pool_.emplace(absl::MakeSpan(memory_.get(), bytes), runner_->kv_layout().block_bytes());
  runner_->SetKvPool(*pool_);
  logits_.resize(static_cast<size_t>(kChunkTokens) * static_cast<size_t>(runner_->vocab_size()));
}

void ModelSession::Run(absl::Span<const int32_t> tokens, size_t first_visited, const Visitor& visit) {
  const size_t vocab = static_cast<size_t>(runner_->vocab_size());
  size_t count = 0;
  for (size_t first = 0; first < tokens.size(); first += count) {
    // A chunk is visited as a whole or not at all.
    const bool is_visited = first >= first_visited;
    count = std::min<size_t>(kChunkTokens, (is_visited ? tokens.size() : first_visited) - first);
    const engine::SequenceSlice slice{.first_row = 0,
                                      .row_count = static_cast<int32_t>(count),
                                      .first_position = static_cast<int32_t>(first),
                                      .blocks = blocks_,
                                      .group_stride = block_stride_,
                                      .output_rows = is_visited ? engine::OutputRows::kAll : engine::OutputRows::kNone,
                                      .first_output = 0};
    const size_t visited = is_visited ? count : 0;
    runner_->Run({.tokens = tokens.subspan(first, count),
                  .slices = absl::MakeSpan(&slice, 1),
                  .output_count = static_cast<int32_t>(visited)},
                 {.logits = absl::MakeSpan(logits_).first(visited * vocab)});
    for (size_t row = 0; row < visited; ++row) {
      visit(first + row, absl::MakeConstSpan(logits_).subspan(row * vocab, vocab));
    }
  }
}

std::string ModelTestName(const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

nlohmann::json ReadOracle(std::string_view kind, std::string_view model) {
  std::ifstream file(std::string(BATON_SOURCE_DIR "/tests/data/").append(kind).append("/").append(model) + ".json");
  return nlohmann::json::parse(file);
}

double NegativeLogLikelihood(absl::Span<const float> logits, int32_t target) {
  const double maximum = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - maximum);
  return maximum + std::log(sum) - logits[static_cast<size_t>(target)];
}

}  // namespace baton::tests
