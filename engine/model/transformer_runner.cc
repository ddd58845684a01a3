#include "engine/model/transformer_runner.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/check.h"
#include "engine/kernels/dispatch.h"

namespace baton::engine {
namespace {

using kernels::kGroup;
using kernels::kLanes;
using kernels::PackedMatrix;

// Rows that go through all weights of a product before the next rows do, so that their activations stay in the
// second-level cache.
constexpr int kRowChunk = 64;
// Most column blocks of one product call.
constexpr int kUnitBlocks = 4;
// With at most this many rows every thread norms all of them for itself, which is cheaper than a barrier. It then needs
// its own copy of the residual stream as well, because other threads may be a norm behind.
constexpr int kFewRows = 4;
// Phases of a layer: q, k and v; attention; output; gate and up; down. The logits are one more.
constexpr int kPhasesPerLayer = 5;

int Tiles(int rows) { return (rows + kLanes - 1) / kLanes; }

// Carves aligned arrays out of one buffer. A first pass without a buffer counts the bytes.
class Carver {
 public:
  explicit Carver(uint8_t* base) : base_(base) {}
  template <typename T>
  T* Take(size_t count) {
    T* const p = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += (count * sizeof(T) + 63) / 64 * 64;
    return p;
  }
  size_t used() const { return used_; }

 private:
  uint8_t* const base_;
  size_t used_ = 0;
};

// The forms in which the products of a model read activations.
struct ActivationKinds {
  bool quantized = false;
  bool floats = false;
};

ActivationKinds KindsOf(const TransformerWeights& w) {
  ActivationKinds kinds;
  const auto add = [&](const PackedMatrix& matrix) { (matrix.quantized() ? kinds.quantized : kinds.floats) = true; };
  add(w.head);
  for (const TransformerLayer& l : w.layers) {
    for (const PackedMatrix* m : {&l.query, &l.key, &l.value, &l.output, &l.gate, &l.up, &l.down}) add(*m);
  }
  return kinds;
}

}  // namespace

TransformerRunner::TransformerRunner(TransformerWeights weights, KvDtype kv_dtype, const kernels::KernelTable& table,
                                     std::unique_ptr<kernels::ThreadPool> pool, int max_rows)
    : HostModelRunner(weights.config.vocab_size, max_rows),
      weights_(std::move(weights)),
      config_(weights_.config),
      table_(table),
      layout_(KvLayoutOf(config_, kv_dtype)),
      block_bytes_(layout_.block_bytes()),
      qkv_unit_blocks_(config_.query_key_norm || kv_dtype == KvDtype::kInt8 ? config_.head_dim / kLanes : 1),
      plan_(max_rows, layout_.groups()),
      kv_(config_, layout_, table_, plan_, max_rows),
      phases_(std::move(pool), config_.layers * kPhasesPerLayer + 1) {
  AllocateScratch(max_rows);
}

void TransformerRunner::AllocateScratch(int max_rows) {
  const ActivationKinds kinds = KindsOf(weights_);
  const size_t rows = static_cast<size_t>(max_rows);
  const size_t hidden = static_cast<size_t>(config_.hidden_size);
  const size_t query = static_cast<size_t>(config_.heads) * static_cast<size_t>(config_.head_dim);
  const size_t widest = std::max({hidden, query, static_cast<size_t>(config_.ffn_size)});
  const int group = config_.heads / config_.kv_heads;
  threads_.resize(static_cast<size_t>(phases_.threads()));
  const auto carve = [&](uint8_t* base) {
    Carver c(base);
    const auto activations = [&](size_t depth, int for_rows) {
      const size_t tiles = static_cast<size_t>(Tiles(for_rows));
      Activations a{.depth = static_cast<int>(depth)};
      if (kinds.quantized) a.quant = c.Take<kernels::QuantGroup>(tiles * depth / kGroup);
      if (kinds.floats) a.values = c.Take<float>(tiles * depth * kLanes);
      return a;
    };
    hidden_ = c.Take<float>(rows * hidden);
    branch_ = c.Take<float>(rows * hidden);
    norm_ = activations(hidden, max_rows);
    attention_out_ = c.Take<float>(rows * query);
    attended_ = activations(query, max_rows);
    activated_ = activations(static_cast<size_t>(config_.ffn_size), max_rows);
    for (ThreadScratch& t : threads_) {
      t.product = c.Take<float>(static_cast<size_t>(std::max(kUnitBlocks, qkv_unit_blocks_) * kRowChunk * kLanes));
      t.row = c.Take<float>(widest);
      t.residual = c.Take<float>(kFewRows * hidden);
      t.attention = c.Take<uint8_t>(kernels::AttentionScratchBytes(group, config_.head_dim));
      t.norm = activations(hidden, kLanes);
      t.attended = activations(query, kLanes);
    }
    return c.used();
  };
  scratch_ = kernels::AlignedBuffer(carve(nullptr));
  scratch_.Touch();
  carve(scratch_.data());
}

void TransformerRunner::SetKvPool(KvPool& pool) {
  uint8_t* const base = pool.memory().host().data();
  BATON_CHECK(reinterpret_cast<uintptr_t>(base) % 64 == 0) << "the KV pool must be 64-byte aligned";
  BATON_CHECK(pool.block_bytes() == block_bytes_) << pool.block_bytes();
  kv_.SetPool(base);
  kv_blocks_ = pool.block_count();
}

void TransformerRunner::ZeroRows(BlockId block, int32_t first_row) {
  BATON_CHECK(block >= 0 && block < kv_blocks_) << block;
  kv_.ZeroRows(block, first_row);
}

void TransformerRunner::Forward(const StepBatch& batch, absl::Span<float> logits, absl::Span<float> hidden_states) {
  BATON_CHECK(kv_blocks_ > 0) << "SetKvPool comes first";
  plan_.Fill(batch, config_.vocab_size, config_.context_length);
  for (int group = 0; group < layout_.groups().count(); ++group) {
    for (int row = 0; row < rows(); ++row) {
      const BlockId block = plan_.RowBlock(group, row);
      BATON_CHECK(block >= 0 && block < kv_blocks_) << block;
    }
  }
  if (plan_.rows.empty()) return;
  logits_ = logits;
  hidden_states_ = hidden_states;
  phases_.Run([this](Cursor& cursor) { RunStep(cursor); });
}

void TransformerRunner::ForEach(int count, absl::FunctionRef<void(int)> fn) {
  if (count <= 1) return HostModelRunner::ForEach(count, fn);
  phases_.ForEach(count, fn);
}

template <typename Fn>
void TransformerRunner::ShareProduct(Cursor& cursor, int units, Fn fn) {
  const int chunks = (rows() + kRowChunk - 1) / kRowChunk;
  phases_.Share(cursor, units * chunks, [&](int i) {
    const int row = i / units * kRowChunk;
    fn(Part{.unit = i % units, .row = row, .rows = std::min(kRowChunk, rows() - row)});
  });
}

bool TransformerRunner::few_rows() const { return rows() <= kFewRows; }

SharedPhases::Range TransformerRunner::ResidualRows(const Cursor& cursor) const {
  return few_rows() ? Range{0, rows()} : phases_.ShareOf(rows(), cursor.thread);
}

float* TransformerRunner::Residual(const Cursor& cursor, int row) const {
  float* const first = few_rows() ? threads_[static_cast<size_t>(cursor.thread)].residual : hidden_;
  return first + static_cast<size_t>(row) * config_.hidden_size;
}

void TransformerRunner::RunStep(Cursor& cursor) {
  Embed(cursor);
  const Range rotated = phases_.ShareOf(rows(), cursor.thread);
  for (int r = rotated.begin; r < rotated.end; ++r) kv_.PrepareRotation(r);
  phases_.Barrier();
  for (int layer = 0; layer < config_.layers; ++layer) RunLayer(cursor, layer);
  if (!plan_.output_rows.empty()) StoreOutputs(cursor);
}

void TransformerRunner::RunLayer(Cursor& cursor, int index) {
  const TransformerLayer& layer = weights_.layers[static_cast<size_t>(index)];
  const Activations& attention_in = Normalize(cursor, layer.attention_norm);
  const int qkv_blocks = layer.query.col_blocks + layer.key.col_blocks + layer.value.col_blocks;
  ShareProduct(cursor, qkv_blocks / qkv_unit_blocks_,
               [&](const Part& part) { StoreQkv(cursor, index, attention_in, part); });
  phases_.Share(cursor, static_cast<int>(plan_.tiles.size()) * config_.kv_heads,
                [&](int item) { Attend(cursor, index, item); });
  const Activations& attended = TakeAttended(cursor);
  ShareProduct(cursor, layer.output.col_blocks, [&](const Part& part) {
    StoreBranch(cursor, {layer.output, attended, layer.attention_post_norm}, part);
  });
  AddBranch(cursor, layer.attention_post_norm);
  const Activations& ffn_in = Normalize(cursor, layer.ffn_norm);
  ShareProduct(cursor, config_.ffn_size / kGroup, [&](const Part& part) { FeedForward(cursor, layer, ffn_in, part); });
  ShareProduct(cursor, layer.down.col_blocks, [&](const Part& part) {
    StoreBranch(cursor, {layer.down, activated_, layer.ffn_post_norm}, part);
  });
  AddBranch(cursor, layer.ffn_post_norm);
}

void TransformerRunner::Embed(const Cursor& cursor) {
  const Range range = ResidualRows(cursor);
  for (int r = range.begin; r < range.end; ++r) {
    float* const row = Residual(cursor, r);
    kernels::UnpackRow(weights_.embedding, plan_.rows[static_cast<size_t>(r)].token, row);
    if (config_.embedding_scale == 1.0f) continue;
    for (int i = 0; i < config_.hidden_size; ++i) row[i] *= config_.embedding_scale;
  }
}

bool TransformerRunner::BranchesAddThemselves(const std::vector<float>& post_norm) const {
  return !few_rows() && post_norm.empty();
}

// residual += branch, which is normed first where the model says so.
void TransformerRunner::AddBranch(const Cursor& cursor, const std::vector<float>& post_norm) {
  if (BranchesAddThemselves(post_norm)) return;
  const ThreadScratch& scratch = threads_[static_cast<size_t>(cursor.thread)];
  const Range range = ResidualRows(cursor);
  for (int r = range.begin; r < range.end; ++r) {
    const float* branch = branch_ + static_cast<size_t>(r) * config_.hidden_size;
    if (!post_norm.empty()) {
      table_.rms_norm(branch, post_norm.data(), config_.hidden_size, config_.rms_norm_eps, scratch.row);
      branch = scratch.row;
    }
    table_.add(Residual(cursor, r), kLanes, branch, config_.hidden_size / kLanes);
  }
}

const Activations& TransformerRunner::Normalize(Cursor& cursor, const std::vector<float>& weight) {
  ThreadScratch& scratch = threads_[static_cast<size_t>(cursor.thread)];
  const Range range = ResidualRows(cursor);
  const Activations& to = few_rows() ? scratch.norm : norm_;
  for (int r = range.begin; r < range.end; ++r) {
    table_.rms_norm(Residual(cursor, r), weight.data(), config_.hidden_size, config_.rms_norm_eps, scratch.row);
    StoreActivations(to, r, 0, scratch.row, config_.hidden_size);
  }
  if (!few_rows()) phases_.Barrier();
  return to;
}

// Stores the output of attention in the form that the output projection reads. This is not done where a head is
// computed, because rows of one tile share cache lines while their heads are on several threads.
const Activations& TransformerRunner::TakeAttended(const Cursor& cursor) {
  const Range range = ResidualRows(cursor);
  const Activations& to = few_rows() ? threads_[static_cast<size_t>(cursor.thread)].attended : attended_;
  for (int r = range.begin; r < range.end; ++r) {
    StoreActivations(to, r, 0, attention_out_ + static_cast<size_t>(r) * to.depth, to.depth);
  }
  if (!few_rows()) phases_.Barrier();
  return to;
}

void TransformerRunner::StoreActivations(const Activations& to, int row, int column, const float* values,
                                         int count) const {
  const size_t tile = static_cast<size_t>(row / kLanes);
  const int slot = row % kLanes;
  if (to.quant != nullptr) {
    table_.quantize(values, count / kGroup, to.quant + (tile * to.depth + column) / kGroup, slot);
  }
  if (to.values != nullptr) {
    float* const first = to.values + (tile * to.depth + column) * kLanes + slot;
    for (int i = 0; i < count; ++i) first[static_cast<size_t>(i) * kLanes] = values[i];
  }
}

// out: [at.blocks][at.rows][16].
void TransformerRunner::Product(const PackedMatrix& matrix, const Activations& acts, const Extent& at,
                                float* out) const {
  const size_t tile = static_cast<size_t>(at.row / kLanes) * static_cast<size_t>(acts.depth);
  if (matrix.quantized()) {
    table_.matmul_quant({.format = matrix.format,
                         .groups = acts.depth / kGroup,
                         .rows = at.rows,
                         .col_blocks = at.blocks,
                         .acts = acts.quant + tile / kGroup,
                         .weights = matrix.block(at.block),
                         .block_stride = matrix.block_stride,
                         .out = out});
  } else {
    table_.matmul_float({.format = matrix.format,
                         .depth = acts.depth,
                         .rows = at.rows,
                         .col_blocks = at.blocks,
                         .acts = acts.values + tile * kLanes,
                         .weights = matrix.block(at.block),
                         .block_stride = matrix.block_stride,
                         .out = out});
  }
}

void TransformerRunner::StoreQkv(const Cursor& cursor, int layer, const Activations& acts, const Part& part) {
  const TransformerLayer& w = weights_.layers[static_cast<size_t>(layer)];
  const ThreadScratch& scratch = threads_[static_cast<size_t>(cursor.thread)];
  const int blocks = qkv_unit_blocks_;
  const int key = part.unit * blocks - w.query.col_blocks;
  const int value = key - w.key.col_blocks;
  const PackedMatrix& matrix = key < 0 ? w.query : value < 0 ? w.key : w.value;
  const int first = key < 0 ? part.unit * blocks : value < 0 ? key : value;
  const auto columns = [&](int row, int rows) {
    return KvWriter::Part{.layer = layer, .row = row, .rows = rows, .column = first * kLanes, .width = blocks * kLanes};
  };
  const auto store = [&](int row, int rows, float* y) {
    if (key < 0) return kv_.StoreQuery(columns(row, rows), y);
    if (value < 0) return kv_.StoreKey(columns(row, rows), y);
    kv_.StoreValue(columns(row, rows), y);
  };
  if (key >= 0) kv_.Prefetch(columns(part.row, part.rows), value >= 0);
  Product(matrix, acts, {first, blocks, part.row, part.rows}, scratch.product);
  // A head has at least two blocks, so a single block is never normed.
  if (blocks == 1) return store(part.row, part.rows, scratch.product);
  const std::vector<float>& norm = key < 0 ? w.query_norm : w.key_norm;
  const bool is_normed = config_.query_key_norm && value < 0;
  for (int r = 0; r < part.rows; ++r) {
    for (int b = 0; b < blocks; ++b) {
      std::memcpy(scratch.row + b * kLanes, scratch.product + (b * part.rows + r) * kLanes, kLanes * sizeof(float));
    }
    if (is_normed) table_.rms_norm(scratch.row, norm.data(), config_.head_dim, config_.rms_norm_eps, scratch.row);
    store(part.row + r, 1, scratch.row);
  }
}

void TransformerRunner::Attend(const Cursor& cursor, int layer, int item) {
  const ThreadScratch& scratch = threads_[static_cast<size_t>(cursor.thread)];
  const StepPlan::QueryTile& tile = plan_.tiles[static_cast<size_t>(item / config_.kv_heads)];
  const int head = item % config_.kv_heads;
  const int group = config_.heads / config_.kv_heads;
  const size_t row_width = static_cast<size_t>(attended_.depth);
  const kernels::AttentionCall call{
      .query_rows = tile.row_count,
      .first_position = tile.first_position,
      .heads_per_kv = group,
      .head_dim = config_.head_dim,
      .window = config_.Slides(layer) ? config_.sliding_window : 0,
      .scale = config_.attention_scale,
      .query = kv_.Query(tile.first_row, head * group),
      .query_stride = kv_.query_stride(),
      .keys = kv_.Keys(layer, head),
      .values = kv_.Values(layer, head),
      .block_stride = block_bytes_,
      .blocks = tile.blocks + kv_.GroupOf(layer) * tile.group_stride,
      .out = attention_out_ + static_cast<size_t>(tile.first_row) * row_width + head * group * config_.head_dim,
      .out_stride = row_width,
      .scratch = scratch.attention,
  };
  kernels::AttentionOver(layout_.dtype, table_)(call);
}

// 16 columns of branch = acts * matrix, or of residual += it.
void TransformerRunner::StoreBranch(const Cursor& cursor, const Branch& branch, const Part& part) {
  float* const product = threads_[static_cast<size_t>(cursor.thread)].product;
  Product(branch.matrix, branch.acts, {part.unit, 1, part.row, part.rows}, product);
  const size_t width = static_cast<size_t>(config_.hidden_size);
  const size_t first = static_cast<size_t>(part.row) * width + static_cast<size_t>(part.unit) * kLanes;
  if (BranchesAddThemselves(branch.post_norm)) return table_.add(hidden_ + first, width, product, part.rows);
  for (int r = 0; r < part.rows; ++r) {
    std::memcpy(branch_ + first + static_cast<size_t>(r) * width, product + r * kLanes, kLanes * sizeof(float));
  }
}

// 32 columns of the gate and of the up projection, and their activation: one group of the down projection's input.
void TransformerRunner::FeedForward(const Cursor& cursor, const TransformerLayer& layer, const Activations& acts,
                                    const Part& part) {
  float* const product = threads_[static_cast<size_t>(cursor.thread)].product;
  float* const up = product + 2 * part.rows * kLanes;
  Product(layer.gate, acts, {2 * part.unit, 2, part.row, part.rows}, product);
  Product(layer.up, acts, {2 * part.unit, 2, part.row, part.rows}, up);
  const auto activate = config_.activation == modelfile::Activation::kGeGluTanh ? table_.geglu : table_.swiglu;
  activate(product, up, 2 * part.rows * kLanes, product);
  StoreActivatedGroup(part, product);
}

// The part's rows of one group: its first 16 columns in values[0 .. rows), the others behind them.
void TransformerRunner::StoreActivatedGroup(const Part& part, const float* values) const {
  const float* const last = values + static_cast<size_t>(part.rows) * kLanes;
  for (int r = 0; r < part.rows; r += kLanes) {
    const int rows = std::min(kLanes, part.rows - r);
    const size_t tile = static_cast<size_t>((part.row + r) / kLanes) * static_cast<size_t>(activated_.depth);
    if (activated_.quant != nullptr) {
      table_.quantize_tile(values + r * kLanes, last + r * kLanes, rows, activated_.quant[tile / kGroup + part.unit]);
    }
    if (activated_.values != nullptr) {
      float* const first = activated_.values + (tile + part.unit * kGroup) * kLanes;
      for (int slot = 0; slot < rows; ++slot) {
        for (int i = 0; i < kLanes; ++i) {
          first[i * kLanes + slot] = values[(r + slot) * kLanes + i];
          first[(i + kLanes) * kLanes + slot] = last[(r + slot) * kLanes + i];
        }
      }
    }
  }
}

void TransformerRunner::StoreOutputs(Cursor& cursor) {
  const int count = static_cast<int>(plan_.output_rows.size());
  ThreadScratch& scratch = threads_[static_cast<size_t>(cursor.thread)];
  // Other threads added the last branch to the rows.
  if (!few_rows()) phases_.Barrier();
  for (int i = cursor.thread; i < count; i += phases_.threads()) {
    const float* const hidden = Residual(cursor, plan_.output_rows[static_cast<size_t>(i)]);
    table_.rms_norm(hidden, weights_.output_norm.data(), config_.hidden_size, config_.rms_norm_eps, scratch.row);
    StoreActivations(norm_, i, 0, scratch.row, config_.hidden_size);
    if (hidden_states_.empty()) continue;
    std::memcpy(hidden_states_.data() + static_cast<size_t>(i) * config_.hidden_size, scratch.row,
                static_cast<size_t>(config_.hidden_size) * sizeof(float));
  }
  if (logits_.empty()) return;
  phases_.Barrier();
  phases_.Share(cursor, (weights_.head.col_blocks + kUnitBlocks - 1) / kUnitBlocks,
                [&](int unit) { LogitsUnit(cursor, unit); });
}

void TransformerRunner::LogitsUnit(const Cursor& cursor, int unit) {
  const int count = static_cast<int>(plan_.output_rows.size());
  float* const product = threads_[static_cast<size_t>(cursor.thread)].product;
  const int block = unit * kUnitBlocks;
  const int blocks = std::min(kUnitBlocks, weights_.head.col_blocks - block);
  for (int row = 0; row < count; row += kRowChunk) {
    const int chunk = std::min(kRowChunk, count - row);
    Product(weights_.head, norm_, {block, blocks, row, chunk}, product);
    for (int b = 0; b < blocks; ++b) {
      const int column = (block + b) * kLanes;
      const size_t bytes = static_cast<size_t>(std::min(kLanes, config_.vocab_size - column)) * sizeof(float);
      for (int r = 0; r < chunk; ++r) {
        std::memcpy(logits_.data() + static_cast<size_t>(row + r) * config_.vocab_size + column,
                    product + (b * chunk + r) * kLanes, bytes);
      }
    }
  }
}

}  // namespace baton::engine
