#include "engine/fake_model.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "engine/sampler.h"

namespace baton::engine {
namespace {

// The whole cell is the hash.
struct FakeCell {
  uint64_t a = 0;
  uint64_t b = 0;
};

// The finalizer of SplitMix64.
uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

FakeCell NextCell(const FakeCell& previous, int32_t token, uint64_t weights_seed) {
  const uint64_t t = static_cast<uint64_t>(static_cast<uint32_t>(token)) + 1;
  return {Mix(previous.a + t * 0x9e3779b97f4a7c15 + weights_seed), Mix(previous.b ^ (previous.a + t))};
}

uint64_t FoldCell(uint64_t sum, const FakeCell& cell) { return sum * 0xda942042e4dd58b5 + cell.a + (cell.b >> 7); }

// In [-4, 4): every token has a chance at temperature 1, and greedy has a clear winner.
void LogitsOf(uint64_t sum, absl::Span<float> logits) {
  for (size_t id = 0; id < logits.size(); ++id) {
    const uint64_t bits = Mix(sum + (id + 1) * 0x9e3779b97f4a7c15) >> 40;
    logits[id] = static_cast<float>(bits) * 0x1p-21f - 4.0f;
  }
}

}  // namespace

FakeModel::FakeModel(const FakeModelOptions& options)
    : options_(options),
      layout_{.layers = 1, .kv_heads = 1, .head_dim = 8, .dtype = KvDtype::kOpaque, .inner_format = 1},
      fingerprint_(absl::StrCat("fake-", options.vocab_size, "-", options.context_length, "-", options.weights_seed)) {
  static_assert(sizeof(FakeCell) == 16);
  BATON_CHECK(layout_.token_bytes() == sizeof(FakeCell));
  BATON_CHECK(options.vocab_size > 0 && options.context_length > 1);
}

void FakeModel::SetKvPool(uint8_t* base, int32_t block_count) {
  base_ = base;
  block_count_ = block_count;
}

uint8_t* FakeModel::Cell(absl::Span<const BlockId> blocks, int32_t position) const {
  const BlockId block = blocks.at(static_cast<size_t>(position / kBlockTokens));
  BATON_CHECK(block >= 0 && block < block_count_) << block;
  const int64_t cell = static_cast<int64_t>(block) * kBlockTokens + position % kBlockTokens;
  return base_ + static_cast<size_t>(cell) * sizeof(FakeCell);
}

void FakeModel::Forward(const StepBatch& batch, absl::Span<float> logits) {
  BATON_CHECK(logits.size() >= static_cast<size_t>(batch.logits_count) * static_cast<size_t>(options_.vocab_size));
  for (const SequenceSlice& slice : batch.slices) RunSlice(batch, slice, logits);
}

void FakeModel::RunSlice(const StepBatch& batch, const SequenceSlice& slice, absl::Span<float> logits) {
  const size_t vocab_size = static_cast<size_t>(options_.vocab_size);
  int32_t logits_index = slice.logits_index;
  for (int32_t row = 0; row < slice.row_count; ++row) {
    const int32_t position = slice.first_position + row;
    const int32_t token = batch.tokens.at(static_cast<size_t>(slice.first_row + row));
    BATON_CHECK(token >= 0 && token < options_.vocab_size) << token;
    FakeCell previous;
    if (position > 0) std::memcpy(&previous, Cell(slice.blocks, position - 1), sizeof(previous));
    const FakeCell cell = NextCell(previous, token, options_.weights_seed);
    std::memcpy(Cell(slice.blocks, position), &cell, sizeof(cell));
    if (slice.wants_all_logits || (slice.wants_logits && row + 1 == slice.row_count)) {
      const size_t begin = static_cast<size_t>(logits_index++) * vocab_size;
      WriteLogits(slice.blocks, position + 1, logits.subspan(begin, vocab_size));
    }
  }
}

void FakeModel::WriteLogits(absl::Span<const BlockId> blocks, int32_t cells, absl::Span<float> logits) const {
  uint64_t sum = 0;
  for (int32_t position = 0; position < cells; ++position) {
    FakeCell cell;
    std::memcpy(&cell, Cell(blocks, position), sizeof(cell));
    sum = FoldCell(sum, cell);
  }
  LogitsOf(sum, logits);
}

std::vector<int32_t> FakeModelTokens(const FakeModelOptions& options, const std::vector<int32_t>& prompt,
                                     const SamplingParams& sampling, const std::vector<int32_t>& eos_ids) {
  const auto contains = [](const std::vector<int32_t>& ids, int32_t id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  Sampler sampler(options.vocab_size);
  std::vector<float> logits(static_cast<size_t>(options.vocab_size));
  std::vector<int32_t> outputs;
  FakeCell cell;
  uint64_t sum = 0;
  const auto run = [&](int32_t token) {
    cell = NextCell(cell, token, options.weights_seed);
    sum = FoldCell(sum, cell);
  };
  for (int32_t token : prompt) run(token);
  while (true) {
    LogitsOf(sum, absl::MakeSpan(logits));
    const SamplingContext context = {.prompt = prompt, .outputs = outputs, .eos_ids = eos_ids};
    const int32_t token = sampler.Sample(sampling, context, absl::MakeSpan(logits)).token;
    outputs.push_back(token);
    const bool stops = (!sampling.ignore_eos && contains(eos_ids, token)) || contains(sampling.stop_token_ids, token);
    if (stops || static_cast<int32_t>(outputs.size()) >= sampling.max_tokens ||
        static_cast<int32_t>(prompt.size() + outputs.size()) >= options.context_length) {
      return outputs;
    }
    run(token);
  }
}

}  // namespace baton::engine
