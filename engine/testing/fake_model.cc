#include "engine/testing/fake_model.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/limits.h"
#include "engine/sampler.h"
#include "engine/testing/thirds_grammar.h"

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

// The cell of a sliding layer.
FakeCell NextCell(const FakeCell& previous, const FakeCell& first_seen, int32_t token, uint64_t weights_seed) {
  FakeCell cell = NextCell(previous, token, weights_seed);
  cell.a ^= Mix(first_seen.a + 1);
  cell.b ^= Mix(first_seen.b + 2);
  return cell;
}

uint64_t SeedOf(const FakeModelOptions& options, int32_t layer) {
  // The last layer sees everything, or is alone.
  return options.weights_seed + static_cast<uint64_t>(options.layers() - 1 - layer) * 0x2545f4914f6cdd1d;
}

FakeCell CellOfLayer(const FakeModelOptions& options, int32_t layer, const FakeCell& previous,
                     const FakeCell& first_seen, int32_t token) {
  const uint64_t seed = SeedOf(options, layer);
  return options.Slides(layer) ? NextCell(previous, first_seen, token, seed) : NextCell(previous, token, seed);
}

uint64_t FoldCell(uint64_t sum, const FakeCell& cell) { return sum * 0xda942042e4dd58b5 + cell.a + (cell.b >> 7); }

// Logits lie in [-4, 4): every token has a chance at temperature 1, and greedy has a clear winner.
void LogitsOf(uint64_t sum, absl::Span<float> logits) {
  for (size_t id = 0; id < logits.size(); ++id) {
    const uint64_t bits = Mix(sum + (id + 1) * 0x9e3779b97f4a7c15) >> 40;
    logits[id] = static_cast<float>(bits) * 0x1p-21f - 4.0f;
  }
}

void HiddenStateOf(uint64_t sum, absl::Span<float> hidden) {
  for (size_t i = 0; i < hidden.size(); ++i) hidden[i] = static_cast<float>(Mix(sum + i) >> 40) * 0x1p-24f;
}

KvLayout LayoutOf(const FakeModelOptions& options) {
  KvLayout layout{
      .layers = options.layers(), .kv_heads = 1, .head_dim = 8, .dtype = KvDtype::kOpaque, .inner_format = 1};
  if (options.sliding_layers == 0) return layout;
  layout.window = options.window;
  for (int32_t i = 0; i < options.layers(); ++i) layout.sliding_layers.push_back(options.Slides(i));
  return layout;
}

std::string FingerprintOf(const FakeModelOptions& options, const KvLayout& layout) {
  const std::string name =
      absl::StrCat("fake-", options.vocab_size, "-", options.context_length, "-", options.weights_seed);
  return options.layers() == 1 ? name : absl::StrCat(name, "/", layout.ToString());
}

}  // namespace

FakeModel::FakeModel(const FakeModelOptions& options)
    : HostModelRunner(options.vocab_size, kMaxSequences),
      options_(options),
      layout_(LayoutOf(options)),
      places_(layout_.Places()),
      groups_(layout_.groups().count()),
      block_bytes_(layout_.block_bytes()),
      fingerprint_(FingerprintOf(options, layout_)),
      steps_(layout_.groups()) {
  static_assert(sizeof(FakeCell) == 16);
  BATON_CHECK(layout_.token_bytes() == sizeof(FakeCell) * places_.size());
  BATON_CHECK(options.vocab_size > 0 && options.context_length > 1);
  BATON_CHECK(options.layers() > 0 && (options.sliding_layers == 0 || options.window > 1));
}

void FakeModel::SetKvPool(KvPool& pool) {
  BATON_CHECK(steps_.empty()) << "a step is in flight";
  BATON_CHECK(pool.block_bytes() == block_bytes_) << pool.block_bytes();
  base_ = pool.memory().base;
  block_count_ = pool.block_count();
}

void FakeModel::ZeroRows(BlockId block, int32_t first_row) {
  BATON_CHECK(steps_.empty()) << "a step is in flight";
  BATON_CHECK(block >= 0 && block < block_count_) << "block " << block;
  constexpr size_t kLayerBytes = kBlockTokens * sizeof(FakeCell);
  uint8_t* const begin = base_ + static_cast<size_t>(block) * block_bytes_;
  for (size_t layer = 0; layer < block_bytes_; layer += kLayerBytes) {
    const size_t kept = static_cast<size_t>(first_row) * sizeof(FakeCell);
    std::memset(begin + layer + kept, 0, kLayerBytes - kept);
  }
}

void FakeModel::Submit(const StepBatch& batch, const StepOutputs& outputs) {
  if (options_.steps_ahead == StepsAhead::kNone) return HostModelRunner::Submit(batch, outputs);
  FakeStep& step = steps_.Add(batch, outputs);
  if (options_.steps_ahead == StepsAhead::kEarly) RunStep(step);
}

void FakeModel::Complete() {
  if (options_.steps_ahead == StepsAhead::kNone) return HostModelRunner::Complete();
  if (!steps_.oldest().has_run) RunStep(steps_.oldest());
  steps_.Pop();
}

int32_t FakeModel::AwaitLayers(int32_t known) {
  if (!options_.layer_by_layer) return options_.layers();
  if (options_.steps_ahead == StepsAhead::kNone) {
    RunLayer(batch(), known);
  } else if (!steps_.oldest().has_run) {
    RunLayer(steps_.oldest().batch(), known);
  }
  return known + 1;
}

// The whole step runs once more in Complete, and writes the same.
void FakeModel::RunLayer(const StepBatch& batch, int32_t layer) {
  for (const SequenceSlice& slice : batch.slices) {
    for (int32_t row = 0; row < slice.row_count; ++row) {
      RunCell(slice, layer, slice.first_position + row, batch.tokens.at(static_cast<size_t>(slice.first_row + row)));
    }
  }
}

void FakeModel::RunStep(FakeStep& step) {
  steps_.ResolveTokens(step);
  HostModelRunner::Submit(step.batch(), {.tokens = absl::MakeSpan(step.chosen),
                                         .logits = step.outputs.logits,
                                         .hidden_states = step.outputs.hidden_states});
  HostModelRunner::Complete();
  steps_.NoteRun(step);
}

uint8_t* FakeModel::Cell(const SequenceSlice& slice, int32_t layer, int32_t position) const {
  const KvLayout::Place place = places_[static_cast<size_t>(layer)];
  const BlockId block =
      slice.blocks.at(static_cast<size_t>(place.group * slice.group_stride + position / kBlockTokens));
  BATON_CHECK(block >= 0 && block < block_count_) << "block " << block << " of position " << position;
  const int32_t cell = place.index * kBlockTokens + position % kBlockTokens;
  return base_ + static_cast<size_t>(block) * block_bytes_ + static_cast<size_t>(cell) * sizeof(FakeCell);
}

void FakeModel::Forward(const StepBatch& batch, absl::Span<float> logits, absl::Span<float> hidden_states) {
  for (const SequenceSlice& slice : batch.slices) RunSlice(batch, slice, logits, hidden_states);
}

void FakeModel::RunSlice(const StepBatch& batch, const SequenceSlice& slice, absl::Span<float> logits,
                         absl::Span<float> hidden_states) {
  const size_t vocab_size = static_cast<size_t>(options_.vocab_size);
  int32_t output = slice.first_output;
  for (int32_t row = 0; row < slice.row_count; ++row) {
    const int32_t position = slice.first_position + row;
    const int32_t token = batch.tokens.at(static_cast<size_t>(slice.first_row + row));
    BATON_CHECK(token >= 0 && token < options_.vocab_size) << token;
    RunRow(slice, position, token);
    if (slice.output_rows == OutputRows::kAll ||
        (slice.output_rows == OutputRows::kLast && row + 1 == slice.row_count)) {
      const size_t index = static_cast<size_t>(output++);
      const uint64_t sum = Sum(slice, position);
      if (!logits.empty()) LogitsOf(sum, logits.subspan(index * vocab_size, vocab_size));
      if (!hidden_states.empty()) HiddenStateOf(sum, hidden_states.subspan(index * kFakeHiddenSize, kFakeHiddenSize));
    }
  }
}

void FakeModel::RunRow(const SequenceSlice& slice, int32_t position, int32_t token) {
  for (int32_t layer = 0; layer < options_.layers(); ++layer) RunCell(slice, layer, position, token);
}

void FakeModel::RunCell(const SequenceSlice& slice, int32_t layer, int32_t position, int32_t token) {
  FakeCell previous, first_seen;
  const int32_t first = options_.FirstSeen(layer, position);
  if (position > 0) std::memcpy(&previous, Cell(slice, layer, position - 1), sizeof(previous));
  if (first < position) std::memcpy(&first_seen, Cell(slice, layer, first), sizeof(first_seen));
  const FakeCell cell = CellOfLayer(options_, layer, previous, first_seen, token);
  std::memcpy(Cell(slice, layer, position), &cell, sizeof(cell));
}

uint64_t FakeModel::Sum(const SequenceSlice& slice, int32_t position) const {
  uint64_t sum = 0;
  for (int32_t layer = 0; layer < options_.layers(); ++layer) {
    for (int32_t seen = options_.FirstSeen(layer, position); seen <= position; ++seen) {
      FakeCell cell;
      std::memcpy(&cell, Cell(slice, layer, seen), sizeof(cell));
      sum = FoldCell(sum, cell);
    }
  }
  return sum;
}

namespace {

// The cells of one sequence, without blocks.
class FakeCells {
 public:
  explicit FakeCells(const FakeModelOptions& options)
      : options_(options), cells_(static_cast<size_t>(options.layers())) {}

  void Run(int32_t token) {
    for (int32_t layer = 0; layer < options_.layers(); ++layer) {
      std::vector<FakeCell>& cells = cells_[static_cast<size_t>(layer)];
      const size_t first = static_cast<size_t>(options_.FirstSeen(layer, static_cast<int32_t>(cells.size())));
      const FakeCell previous = cells.empty() ? FakeCell{} : cells.back();
      const FakeCell first_seen = first < cells.size() ? cells[first] : FakeCell{};
      cells.push_back(CellOfLayer(options_, layer, previous, first_seen, token));
    }
  }

  uint64_t Sum() const {
    uint64_t sum = 0;
    for (int32_t layer = 0; layer < options_.layers(); ++layer) {
      const std::vector<FakeCell>& cells = cells_[static_cast<size_t>(layer)];
      const int32_t last = static_cast<int32_t>(cells.size()) - 1;
      for (int32_t i = options_.FirstSeen(layer, last); i <= last; ++i) {
        sum = FoldCell(sum, cells[static_cast<size_t>(i)]);
      }
    }
    return sum;
  }

 private:
  const FakeModelOptions& options_;
  std::vector<std::vector<FakeCell>> cells_;
};

}  // namespace

std::vector<int32_t> FakeModelTokens(const FakeModelOptions& options, const std::vector<int32_t>& prompt,
                                     const SamplingParams& sampling, const std::vector<int32_t>& eos_ids) {
  const auto contains = [](const std::vector<int32_t>& ids, int32_t id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  Sampler sampler(options.vocab_size);
  std::vector<float> logits(static_cast<size_t>(options.vocab_size));
  std::vector<int32_t> outputs;
  FakeCells cells(options);
  for (int32_t token : prompt) cells.Run(token);
  std::unique_ptr<TokenConstraint> constraint;
  if (!sampling.grammar.empty()) {
    constraint = ThirdsSource(options.vocab_size, eos_ids.at(0)).Make(sampling.grammar).value();
  }
  while (true) {
    LogitsOf(cells.Sum(), absl::MakeSpan(logits));
    const SamplingContext context = {.prompt = prompt,
                                     .outputs = outputs,
                                     .eos_ids = eos_ids,
                                     .allowed = constraint == nullptr ? AllowedTokens{} : constraint->Allowed()};
    const int32_t token = sampler.Sample(sampling, context, absl::MakeSpan(logits)).token;
    BATON_CHECK(constraint == nullptr || constraint->Accept(token)) << token;
    outputs.push_back(token);
    const bool stops = (!sampling.ignore_eos && contains(eos_ids, token)) || contains(sampling.stop_token_ids, token);
    if (stops || static_cast<int32_t>(outputs.size()) >= sampling.max_tokens ||
        static_cast<int32_t>(prompt.size() + outputs.size()) >= options.context_length) {
      return outputs;
    }
    cells.Run(token);
  }
}

std::vector<PromptLogprob> FakeModelPromptLogprobs(const FakeModelOptions& options, const std::vector<int32_t>& prompt,
                                                   int32_t top) {
  std::vector<PromptLogprob> logprobs;
  std::vector<float> logits(static_cast<size_t>(options.vocab_size));
  FakeCells cells(options);
  for (size_t i = 1; i < prompt.size(); ++i) {
    cells.Run(prompt[i - 1]);
    LogitsOf(cells.Sum(), absl::MakeSpan(logits));
    logprobs.push_back(ScoreToken(prompt[i], top, logits));
  }
  return logprobs;
}

std::vector<float> FakeModelEmbedding(const FakeModelOptions& options, const std::vector<int32_t>& prompt,
                                      Pooling pooling) {
  std::vector<float> embedding(kFakeHiddenSize);
  std::vector<double> sum(kFakeHiddenSize);
  FakeCells cells(options);
  for (const int32_t token : prompt) {
    cells.Run(token);
    HiddenStateOf(cells.Sum(), absl::MakeSpan(embedding));
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(embedding[i]);
  }
  if (pooling == Pooling::kLast) return embedding;
  for (size_t i = 0; i < sum.size(); ++i)
    embedding[i] = static_cast<float>(sum[i] / static_cast<double>(prompt.size()));
  return embedding;
}

}  // namespace baton::engine
