#include "engine/cuda/cuda_runner.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_format.h"
#include "common/check.h"
#include "common/status.h"
#include "common/usable_cores.h"

namespace baton::engine::cuda {
namespace {

// The arrangement of kernels/params.h. Arrangements of the CPU count from 1.
constexpr uint32_t kInnerFormat = 1001;
constexpr int kMostGraphRows = 256;
// More than the buckets of rows times those of splits that a server meets; beyond, all are dropped.
constexpr size_t kMostGraphs = 128;
// Each holds 20 bytes per token of the vocabulary.
constexpr int kSamplers = 4;
constexpr int kMaxRows = 1 << 16;
// How many parts of the layers a step tells apart. Behind the last mark lies what a reader has yet to read when the
// step ends.
constexpr int kLayerParts = 8;

int Bucket(int count) { return static_cast<int>(std::bit_ceil(static_cast<unsigned>(count))); }

absl::StatusOr<std::vector<LayerMark>> MakeMarks(const Device& device, int32_t layers) {
  std::vector<LayerMark> marks;
  for (int32_t part = 1; part < kLayerParts; ++part) {
    const int32_t done = part * layers / kLayerParts;
    if (done == (marks.empty() ? 0 : marks.back().layers)) continue;
    BATON_ASSIGN_OR_RETURN(Event passed, Event::Create(device));
    marks.push_back({.layers = done, .passed = std::move(passed)});
  }
  return marks;
}

// Rows that scratch is for: a captured step may have more than any step.
int ScratchRows(int max_rows) { return std::max(max_rows, std::min(Bucket(max_rows), kMostGraphRows)); }

}  // namespace

KvLayout CudaKvLayoutOf(const modelfile::ModelConfig& config) {
  KvLayout layout = KvLayoutOf(config, KvDtype::kBf16);
  layout.inner_format = kInnerFormat;
  return layout;
}

CudaRunner::CudaRunner(std::shared_ptr<const Device> device, const CudaModelOptions& options, const KvLayout& layout,
                       Stream stream)
    : device_(std::move(device)),
      memory_(*device_),
      layout_(layout),
      has_graphs_(options.graphs),
      takes_steps_ahead_(options.steps_ahead),
      plan_(options.max_rows, layout.groups()),
      stream_(std::move(stream)),
      threads_(kSamplers) {}

absl::StatusOr<std::unique_ptr<CudaRunner>> CudaRunner::Load(const modelfile::ModelFile& file,
                                                             const CudaModelOptions& options,
                                                             std::shared_ptr<const Device> device) {
  if (options.max_rows < 1 || options.max_rows > kMaxRows) {
    return absl::InvalidArgumentError(absl::StrFormat("max_rows is %d: 1 to %d", options.max_rows, kMaxRows));
  }
  const KvLayout layout = CudaKvLayoutOf(file.config());
  BATON_ASSIGN_OR_RETURN(Stream stream, Stream::Create(*device));
  std::unique_ptr<CudaRunner> runner(new CudaRunner(device, options, layout, std::move(stream)));
  const int rows = ScratchRows(options.max_rows);
  {
    kernels::ThreadPool pool(CountUsableCores());
    BATON_ASSIGN_OR_RETURN(CudaWeights weights,
                           LoadCudaWeights(file, options.weights, options.progress, *device, pool));
    BATON_ASSIGN_OR_RETURN(runner->forward_,
                           Forward::Create(*device, std::move(weights), layout, rows, options.attention));
  }
  const int slices = options.max_slices == 0 ? options.max_rows : std::min(options.max_slices, options.max_rows);
  BATON_ASSIGN_OR_RETURN(runner->data_,
                         StepData::Create(*device, file.config(), layout.groups(), {.rows = rows, .slices = slices}));
  const size_t head_rows = static_cast<size_t>(runner->forward_->head_rows());
  const size_t logits_bytes = static_cast<size_t>(runner->forward_->logits_stride()) * sizeof(float);
  const size_t host_rows = std::clamp<size_t>(options.host_logits_bytes / logits_bytes, 1, head_rows);
  const size_t hidden_bytes = static_cast<size_t>(file.config().hidden_size) * sizeof(float);
  BATON_ASSIGN_OR_RETURN(runner->host_logits_, PinnedBuffer::Allocate(*device, host_rows * logits_bytes));
  BATON_ASSIGN_OR_RETURN(runner->host_hidden_,
                         PinnedBuffer::Allocate(*device, static_cast<size_t>(options.max_rows) * hidden_bytes));
  runner->host_logit_rows_ = static_cast<int>(host_rows);
  for (Flight& flight : runner->flights_) {
    BATON_ASSIGN_OR_RETURN(flight.tokens, PinnedBuffer::Allocate(*device, head_rows * sizeof(int32_t)));
    BATON_ASSIGN_OR_RETURN(flight.ended, Event::Create(*device));
    if (options.layer_events) {
      BATON_ASSIGN_OR_RETURN(flight.marks, MakeMarks(*device, layout.layers));
    }
    flight.needs_logits.resize(head_rows);
  }
  for (int i = 0; i < kSamplers; ++i) runner->samplers_.emplace_back(file.config().vocab_size);
  return runner;
}

absl::StatusOr<std::unique_ptr<KvPool>> CudaRunner::MakeKvPool(int32_t blocks, absl::Span<uint8_t> region) {
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<KvPool> pool,
                         DeviceKvPool::Create(*device_, layout_.block_bytes(), blocks, region));
  return pool;
}

void CudaRunner::SetKvPool(KvPool& pool) {
  BATON_CHECK(in_flight_ == 0) << "a step is in flight";
  BATON_CHECK(pool.block_bytes() == layout_.block_bytes()) << pool.block_bytes() << " bytes in a block";
  pool_ = dynamic_cast<DeviceKvPool*>(&pool);
  BATON_CHECK(pool_ != nullptr) << "the pool is not of a CUDA device";
  forward_->SetPool(pool.memory().base);
  graphs_.clear();
}

void CudaRunner::ZeroRows(BlockId block, int32_t first_row) {
  BATON_CHECK(in_flight_ == 0 && pool_ != nullptr && block >= 0 && block < pool_->block_count()) << block;
  device_->MakeCurrent();
  forward_->ZeroRows(block, first_row, stream_);
  // What comes next may be a digest, on the pool's stream.
  stream_.Synchronize();
}

void CudaRunner::CheckOutputs(const StepBatch& batch, const StepOutputs& outputs) const {
  const size_t count = static_cast<size_t>(batch.output_count);
  const auto is_of = [count](size_t size, int32_t width) {
    return size == 0 || size == count * static_cast<size_t>(width);
  };
  BATON_CHECK(is_of(outputs.tokens.size(), 1)) << outputs.tokens.size() << " tokens of " << count;
  BATON_CHECK(outputs.tokens.empty() || batch.choices.size() == count) << batch.choices.size() << " choices";
  BATON_CHECK(is_of(outputs.logits.size(), vocab_size())) << outputs.logits.size() << " logits of " << count << " rows";
  BATON_CHECK(is_of(outputs.hidden_states.size(), hidden_size())) << outputs.hidden_states.size() << " hidden states";
}

void CudaRunner::CheckSources(const StepBatch& batch) const {
  BATON_CHECK(batch.token_sources.empty() || in_flight_ == 1) << "tokens of a step that is complete";
  BATON_CHECK(batch.token_sources.empty() || batch.token_sources.size() == batch.tokens.size())
      << batch.token_sources.size() << " sources of " << batch.tokens.size() << " rows";
  for (const int32_t source : batch.token_sources) {
    BATON_CHECK(source < flights_[oldest_].batch.output_count) << source;
  }
  for (const TokenChoice& choice : batch.choices) {
    BATON_CHECK(choice.context.unknown_outputs == 0 || LogitsDecide(choice)) << "the host does not know the outputs";
  }
}

// The rows of an embedding choose nothing, and need no logits then.
bool CudaRunner::WantsLogits(const Flight& flight) {
  if (!flight.outputs.logits.empty()) return true;
  return !flight.outputs.tokens.empty() &&
         std::any_of(flight.batch.choices.begin(), flight.batch.choices.end(),
                     [](const TokenChoice& choice) { return choice.sampling != nullptr || choice.score != nullptr; });
}

bool CudaRunner::NeedsLogits(const Flight& flight, size_t output) const {
  if (!flight.outputs.logits.empty() || !forward_->chooses()) return true;
  const TokenChoice& choice = flight.batch.choices[output];
  const bool is_left_alone = choice.score == nullptr && choice.sampling == nullptr;
  return !is_left_alone && !LogitsDecide(choice);
}

int CudaRunner::HeadCount(const Flight& flight) const {
  if (!WantsLogits(flight)) return 0;
  const int count = flight.batch.output_count;
  for (int i = 0; i < count; ++i) {
    if (NeedsLogits(flight, static_cast<size_t>(i))) return std::min(count, host_logit_rows_);
  }
  return std::min(count, forward_->head_rows());
}

int CudaRunner::GraphRows(const Flight& flight) const {
  const StepBatch& batch = flight.batch;
  const size_t count = batch.tokens.size();
  if (!has_graphs_ || count > kMostGraphRows || batch.slices.size() != count ||
      static_cast<size_t>(batch.output_count) != count || !flight.outputs.hidden_states.empty() ||
      flight.head_count == 0) {
    return 0;
  }
  return Bucket(static_cast<int>(count));
}

bool CudaRunner::TakesStepAhead() const {
  return takes_steps_ahead_ && in_flight_ == 1 && flights_[oldest_].all_on_device;
}

void CudaRunner::Submit(const StepBatch& batch, const StepOutputs& outputs) {
  BATON_CHECK(in_flight_ == 0 || TakesStepAhead()) << "a step too many in flight";
  BATON_CHECK(pool_ != nullptr) << "SetKvPool comes first";
  CheckOutputs(batch, outputs);
  CheckSources(batch);
  plan_.Fill(batch, vocab_size(), context_length());
  for (int group = 0; group < layout_.groups().count(); ++group) {
    for (size_t row = 0; row < plan_.rows.size(); ++row) {
      const BlockId block = plan_.RowBlock(group, static_cast<int>(row));
      BATON_CHECK(block >= 0 && block < pool_->block_count()) << block;
    }
  }
  Flight& flight = flights_[(oldest_ + in_flight_) % flights_.size()];
  ++in_flight_;
  flight.batch = batch;
  flight.outputs = outputs;
  flight.all_on_device = false;
  flight.is_marked = false;
  flight.head_count = HeadCount(flight);
  if (!plan_.rows.empty()) Launch(flight);
  flight.ended.Record(stream_);
}

void CudaRunner::Launch(Flight& flight) {
  const int rows = static_cast<int>(plan_.rows.size());
  const int graph_rows = GraphRows(flight);
  data_->Fill(plan_, flight.batch, std::max(rows, graph_rows), pool_->block_count());
  SetSampling(flight);
  data_->Upload(stream_);
  if (graph_rows > 0) {
    RunGraph(flight, graph_rows);
  } else {
    flight.is_marked = std::any_of(flight.batch.slices.begin(), flight.batch.slices.end(), IsPrompt);
    forward_->Layers(
        {.rows = rows, .tiles = data_->tiles(), .splits = data_->splits(), .outputs = flight.batch.output_count},
        *data_, stream_, flight.is_marked ? absl::MakeConstSpan(flight.marks) : absl::Span<const LayerMark>());
    if (flight.head_count > 0) forward_->Head(0, flight.head_count, SamplingFrom(flight, 0), stream_);
  }
  const size_t hidden_bytes = flight.outputs.hidden_states.size() * sizeof(float);
  if (hidden_bytes > 0) stream_.CopyToHost(host_hidden_.at<void>(), forward_->hidden_states(), hidden_bytes);
  if (flight.head_count > 0) CopyOutputs(flight, 0);
}

void CudaRunner::SetSampling(Flight& flight) {
  flight.draws = false;
  if (flight.outputs.tokens.empty() || !forward_->chooses()) return;
  for (int i = 0; i < flight.batch.output_count; ++i) {
    const TokenChoice& choice = flight.batch.choices[static_cast<size_t>(i)];
    if (!LogitsDecide(choice)) continue;
    const SamplingParams& p = *choice.sampling;
    flight.draws = flight.draws || p.temperature >= kGreedyTemperature;
    data_->SetSampling(i, {.seed = p.seed,
                           .position = static_cast<uint32_t>(choice.context.position()),
                           .temperature = p.temperature,
                           .top_k = p.top_k,
                           .top_p = p.top_p,
                           .min_p = p.min_p});
  }
}

void CudaRunner::RunGraph(const Flight& flight, int rows) {
  const int splits = Bucket(data_->splits());
  const auto key = std::make_tuple(rows, splits, flight.draws);
  auto found = graphs_.find(key);
  if (found == graphs_.end()) {
    if (graphs_.size() >= kMostGraphs) {
      stream_.Synchronize();
      graphs_.clear();
    }
    stream_.BeginCapture();
    forward_->Layers({.rows = rows, .tiles = {.small = rows, .alone = rows}, .splits = splits, .outputs = rows}, *data_,
                     stream_);
    forward_->Head(0, std::min(rows, forward_->head_rows()), SamplingFrom(flight, 0), stream_);
    found = graphs_.emplace(key, stream_.EndCapture()).first;
  }
  stream_.Launch(found->second);
}

absl::Span<float> CudaRunner::HostLogits(int i) const {
  return {host_logits_.at<float>() + static_cast<ptrdiff_t>(i) * forward_->logits_stride(),
          static_cast<size_t>(vocab_size())};
}

void CudaRunner::CopyOutputs(Flight& flight, int first) {
  const int count = std::min(flight.head_count, flight.batch.output_count - first);
  bool needs_any = false;
  bool chooses_all = forward_->chooses() && !flight.outputs.tokens.empty();
  for (int i = 0; i < count; ++i) {
    const size_t row = static_cast<size_t>(first + i);
    const TokenChoice choice = flight.outputs.tokens.empty() ? TokenChoice() : flight.batch.choices[row];
    const bool needs = NeedsLogits(flight, row);
    flight.needs_logits[static_cast<size_t>(i)] = needs;
    needs_any = needs_any || needs;
    chooses_all = chooses_all && LogitsDecide(choice);
  }
  flight.all_on_device =
      chooses_all && !needs_any && count == flight.batch.output_count && flight.outputs.hidden_states.empty();
  if (forward_->chooses()) {
    stream_.CopyToHost(flight.tokens.at<void>(), forward_->tokens(), static_cast<size_t>(count) * sizeof(int32_t));
  }
  if (needs_any) CopyLogits(flight, count);
}

// Rows beside each other go in one copy.
void CudaRunner::CopyLogits(const Flight& flight, int count) {
  BATON_CHECK(count <= host_logit_rows_) << count << " rows of logits for the host";
  const size_t row_bytes = static_cast<size_t>(forward_->logits_stride()) * sizeof(float);
  const std::vector<bool>& needs_logits = flight.needs_logits;
  for (int begin = 0; begin < count;) {
    int end = begin;
    while (end < count && needs_logits[static_cast<size_t>(end)]) ++end;
    const size_t offset = static_cast<size_t>(begin) * row_bytes;
    if (end > begin) {
      stream_.CopyToHost(host_logits_.at<uint8_t>(offset), forward_->logits() + offset,
                         static_cast<size_t>(end - begin) * row_bytes);
    }
    begin = std::max(end, begin + 1);
  }
}

int32_t CudaRunner::AwaitLayers(int32_t known) {
  BATON_CHECK(in_flight_ > 0) << "no step was submitted";
  const Flight& flight = flights_[oldest_];
  if (!flight.is_marked) return layout_.layers;
  for (const LayerMark& mark : flight.marks) {
    if (mark.layers <= known) continue;
    mark.passed.Synchronize();
    return mark.layers;
  }
  return layout_.layers;
}

// No other step is behind one whose outputs need more than the first pass.
void CudaRunner::Complete() {
  BATON_CHECK(in_flight_ > 0) << "no step was submitted";
  Flight& flight = flights_[oldest_];
  flight.ended.Synchronize();
  TakeHiddenStates(flight);
  const int head_count = flight.head_count;
  for (int first = 0; head_count > 0 && first < flight.batch.output_count; first += head_count) {
    if (first > 0) {
      const int count = std::min(head_count, flight.batch.output_count - first);
      forward_->Head(first, count, SamplingFrom(flight, first), stream_);
      CopyOutputs(flight, first);
      stream_.Synchronize();
    }
    TakeOutputs(flight, first);
  }
  oldest_ = (oldest_ + 1) % flights_.size();
  --in_flight_;
}

void CudaRunner::TakeHiddenStates(const Flight& flight) {
  const absl::Span<float> hidden = flight.outputs.hidden_states;
  if (!hidden.empty()) std::memcpy(hidden.data(), host_hidden_.at<void>(), hidden.size() * sizeof(float));
}

void CudaRunner::TakeOutputs(const Flight& flight, int first) {
  const int count = std::min(flight.head_count, flight.batch.output_count - first);
  const size_t width = static_cast<size_t>(vocab_size());
  const absl::Span<float> logits = flight.outputs.logits;
  if (!logits.empty()) {
    for (int i = 0; i < count; ++i) {
      const absl::Span<float> row = HostLogits(i);
      std::copy(row.begin(), row.end(), logits.begin() + static_cast<ptrdiff_t>(first + i) * width);
    }
  }
  if (flight.outputs.tokens.empty()) return;
  const auto begin = flight.needs_logits.begin();
  const auto on_host = std::count(begin, begin + count, true);
  // Waking threads takes longer than a few tokens of the device.
  if (on_host <= 1) {
    for (int i = 0; i < count; ++i) Choose(flight, first, i, 0);
    return;
  }
  threads_.Run([&](int thread) {
    for (int i = thread; i < count; i += kSamplers) Choose(flight, first, i, static_cast<size_t>(thread));
  });
}

void CudaRunner::Choose(const Flight& flight, int first, int i, size_t sampler) {
  const size_t row = static_cast<size_t>(first + i);
  const TokenChoice& choice = flight.batch.choices[row];
  if (choice.score != nullptr) *choice.score = ScoreToken(choice.scored_token, choice.scored_top, HostLogits(i));
  if (choice.sampling == nullptr) return;
  OutputToken& token = flight.outputs.tokens[row];
  if (!flight.needs_logits[static_cast<size_t>(i)]) {
    token = {.index = choice.context.position(), .token = flight.tokens.at<int32_t>()[i]};
  } else {
    token = samplers_[sampler].Sample(*choice.sampling, choice.context, HostLogits(i));
  }
}

}  // namespace baton::engine::cuda
