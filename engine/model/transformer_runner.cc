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

// Rows that a block of weights meets before the next: their activations and the product stay in the first-level cache.
constexpr int kRowChunk = 64;
// Column blocks of one product call at most.
constexpr int kUnitBlocks = 4;
// With so few rows every thread norms them all for itself, which is cheaper than a barrier. It then needs the residual
// stream for itself as well: others may be a norm behind.
constexpr int kFewRows = 4;
// Parts that each thread takes of a phase when work is claimed: late threads leave theirs to the others.
constexpr int kClaimsPerThread = 8;
constexpr int kPhasesPerLayer = 7;

int Tiles(int rows) { return (rows + kLanes - 1) / kLanes; }

// Carves aligned arrays out of one buffer: counts first, then hands out.
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

// What the products of a model read activations as.
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
    : weights_(std::move(weights)),
      config_(weights_.config),
      table_(table),
      layout_{.layers = config_.layers,
              .kv_heads = config_.kv_heads,
              .head_dim = config_.head_dim,
              .dtype = kv_dtype,
              .inner_format = 1},
      qkv_unit_blocks_(config_.query_key_norm || kv_dtype == KvDtype::kInt8 ? config_.head_dim / kLanes : 1),
      plan_(max_rows),
      kv_(config_, layout_, table_, plan_, max_rows),
      claims_(static_cast<size_t>(config_.layers * kPhasesPerLayer + 4)),
      pool_(std::move(pool)) {
  AllocateScratch(max_rows);
}

void TransformerRunner::AllocateScratch(int max_rows) {
  const ActivationKinds kinds = KindsOf(weights_);
  const size_t rows = static_cast<size_t>(max_rows);
  const size_t hidden = static_cast<size_t>(config_.hidden_size);
  const size_t query = static_cast<size_t>(config_.heads) * static_cast<size_t>(config_.head_dim);
  const size_t widest = std::max({hidden, query, static_cast<size_t>(config_.ffn_size)});
  const int group = config_.heads / config_.kv_heads;
  threads_.resize(static_cast<size_t>(pool_->size()));
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
    attended_ = activations(query, max_rows);
    activated_ = activations(static_cast<size_t>(config_.ffn_size), max_rows);
    for (ThreadScratch& t : threads_) {
      t.product = c.Take<float>(static_cast<size_t>(std::max(kUnitBlocks, qkv_unit_blocks_) * kRowChunk * kLanes));
      t.row = c.Take<float>(widest);
      t.residual = c.Take<float>(kFewRows * hidden);
      t.attention = c.Take<uint8_t>(kernels::AttentionScratchBytes(group, config_.head_dim));
      t.attention_out = c.Take<float>(static_cast<size_t>(kernels::kMaxQueryRows * group * config_.head_dim));
      t.norm = activations(hidden, kLanes);
    }
    return c.used();
  };
  scratch_ = kernels::AlignedBuffer(carve(nullptr));
  carve(scratch_.data());
}

void TransformerRunner::SetKvPool(uint8_t* base, int32_t block_count) {
  BATON_CHECK(reinterpret_cast<uintptr_t>(base) % 64 == 0) << "the KV pool must be 64-byte aligned";
  kv_.SetPool(base);
  kv_blocks_ = block_count;
}

void TransformerRunner::Forward(const StepBatch& batch, absl::Span<float> logits) {
  BATON_CHECK(kv_blocks_ > 0) << "SetKvPool comes first";
  BATON_CHECK(logits.size() == static_cast<size_t>(batch.logits_count) * static_cast<size_t>(config_.vocab_size))
      << logits.size();
  plan_.Fill(batch, config_.vocab_size, config_.context_length);
  for (const StepPlan::Row& row : plan_.rows) BATON_CHECK(row.block >= 0 && row.block < kv_blocks_) << row.block;
  if (plan_.rows.empty()) return;
  logits_ = logits;
  for (std::atomic<int32_t>& claim : claims_) claim.store(0, std::memory_order_relaxed);
  if (gate_ != nullptr) gate_->Enter();
  pool_->Run([](void* self, int thread) { static_cast<TransformerRunner*>(self)->RunStep(thread); }, this);
  if (gate_ != nullptr) gate_->Leave();
}

template <typename Fn>
void TransformerRunner::Share(Cursor& cursor, int units, Fn fn) {
  const int threads = pool_->size();
  if (few_rows() || threads == 1) {
    const int begin = static_cast<int>(static_cast<int64_t>(units) * cursor.thread / threads);
    const int end = static_cast<int>(static_cast<int64_t>(units) * (cursor.thread + 1) / threads);
    if (begin < end) fn(begin, end);
  } else {
    std::atomic<int32_t>& claim = claims_[static_cast<size_t>(cursor.phase)];
    const int part = std::max(1, units / (threads * kClaimsPerThread));
    for (int begin = claim.fetch_add(part); begin < units; begin = claim.fetch_add(part)) {
      fn(begin, std::min(begin + part, units));
    }
  }
  ++cursor.phase;
  pool_->Barrier();
}

TransformerRunner::Range TransformerRunner::RowsOf(int thread) const {
  const int threads = pool_->size();
  return {static_cast<int>(static_cast<int64_t>(rows()) * thread / threads),
          static_cast<int>(static_cast<int64_t>(rows()) * (thread + 1) / threads)};
}

bool TransformerRunner::few_rows() const { return rows() <= kFewRows; }

TransformerRunner::Range TransformerRunner::ResidualRows(const Cursor& cursor) const {
  return few_rows() ? Range{0, rows()} : RowsOf(cursor.thread);
}

float* TransformerRunner::Residual(const Cursor& cursor, int row) const {
  float* const first = few_rows() ? threads_[static_cast<size_t>(cursor.thread)].residual : hidden_;
  return first + static_cast<size_t>(row) * config_.hidden_size;
}

void TransformerRunner::RunStep(int thread) {
  Cursor cursor{.thread = thread};
  Embed(cursor);
  const Range turned = RowsOf(thread);
  for (int r = turned.begin; r < turned.end; ++r) kv_.Turn(r);
  pool_->Barrier();
  for (int layer = 0; layer < config_.layers; ++layer) {
    if (layer > 0) YieldPoint(cursor);
    RunLayer(cursor, layer);
  }
  if (!plan_.logits_rows.empty()) Logits(cursor);
}

void TransformerRunner::YieldPoint(const Cursor& cursor) {
  if (gate_ == nullptr || !gate_->yields()) return;
  if (cursor.thread == 0) gate_->YieldPoint();
  pool_->Barrier();
}

void TransformerRunner::RunLayer(Cursor& cursor, int index) {
  const TransformerLayer& layer = weights_.layers[static_cast<size_t>(index)];
  const Activations& attention_in = Normalize(cursor, layer.attention_norm);
  const int qkv_blocks = layer.query.col_blocks + layer.key.col_blocks + layer.value.col_blocks;
  Share(cursor, qkv_blocks / qkv_unit_blocks_, [&](int begin, int end) {
    for (int u = begin; u < end; ++u) QkvUnit(cursor, index, attention_in, u);
  });
  Share(cursor, static_cast<int>(plan_.tiles.size()) * config_.kv_heads, [&](int begin, int end) {
    for (int i = begin; i < end; ++i) Attend(cursor, index, i);
  });
  Share(cursor, layer.output.col_blocks, [&](int begin, int end) {
    for (int b = begin; b < end; ++b) StoreBranch(cursor, layer.output, attended_, b);
  });
  AddBranch(cursor, layer.attention_post_norm);
  YieldPoint(cursor);
  const Activations& ffn_in = Normalize(cursor, layer.ffn_norm);
  Share(cursor, config_.ffn_size / kGroup, [&](int begin, int end) {
    for (int u = begin; u < end; ++u) FeedForward(cursor, layer, ffn_in, u);
  });
  Share(cursor, layer.down.col_blocks, [&](int begin, int end) {
    for (int b = begin; b < end; ++b) StoreBranch(cursor, layer.down, activated_, b);
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

// residual += branch, normed first where the model says so.
void TransformerRunner::AddBranch(const Cursor& cursor, const std::vector<float>& post_norm) {
  const ThreadScratch& scratch = threads_[static_cast<size_t>(cursor.thread)];
  const Range range = ResidualRows(cursor);
  for (int r = range.begin; r < range.end; ++r) {
    const float* branch = branch_ + static_cast<size_t>(r) * config_.hidden_size;
    if (!post_norm.empty()) {
      table_.rms_norm(branch, post_norm.data(), config_.hidden_size, config_.rms_norm_eps, scratch.row);
      branch = scratch.row;
    }
    table_.add(Residual(cursor, r), branch, config_.hidden_size);
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
  if (!few_rows()) pool_->Barrier();
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

// out: [blocks][rows][16]. `row` is a multiple of 16.
void TransformerRunner::Product(const PackedMatrix& matrix, const Activations& acts, int block, int blocks, int row,
                                int rows, float* out) const {
  const size_t tile = static_cast<size_t>(row / kLanes) * static_cast<size_t>(acts.depth);
  if (matrix.quantized()) {
    table_.matmul_quant({.format = matrix.format,
                         .groups = acts.depth / kGroup,
                         .rows = rows,
                         .col_blocks = blocks,
                         .acts = acts.quant + tile / kGroup,
                         .weights = matrix.block(block),
                         .block_stride = matrix.block_stride,
                         .out = out});
  } else {
    table_.matmul_float({.format = matrix.format,
                         .depth = acts.depth,
                         .rows = rows,
                         .col_blocks = blocks,
                         .acts = acts.values + tile * kLanes,
                         .weights = matrix.block(block),
                         .block_stride = matrix.block_stride,
                         .out = out});
  }
}

void TransformerRunner::QkvUnit(const Cursor& cursor, int layer, const Activations& acts, int unit) {
  const TransformerLayer& w = weights_.layers[static_cast<size_t>(layer)];
  const ThreadScratch& scratch = threads_[static_cast<size_t>(cursor.thread)];
  const int blocks = qkv_unit_blocks_;
  const int key = unit * blocks - w.query.col_blocks;
  const int value = key - w.key.col_blocks;
  const PackedMatrix& matrix = key < 0 ? w.query : value < 0 ? w.key : w.value;
  const int first = key < 0 ? unit * blocks : value < 0 ? key : value;
  const auto store = [&](int row, absl::Span<const float> y) {
    const KvWriter::Place to{.layer = layer, .row = row, .column = first * kLanes};
    if (key < 0) return kv_.StoreQuery(to, y);
    if (value < 0) return kv_.StoreKey(to, y);
    kv_.StoreValue(to, y);
  };
  const std::vector<float>& norm = key < 0 ? w.query_norm : w.key_norm;
  const bool is_normed = config_.query_key_norm && value < 0;
  for (int row = 0; row < rows(); row += kRowChunk) {
    const int count = std::min(kRowChunk, rows() - row);
    Product(matrix, acts, first, blocks, row, count, scratch.product);
    for (int r = 0; r < count; ++r) {
      // The row's part of the unit, gathered.
      for (int b = 0; b < blocks; ++b) {
        std::memcpy(scratch.row + b * kLanes, scratch.product + (b * count + r) * kLanes, kLanes * sizeof(float));
      }
      if (is_normed) {
        table_.rms_norm(scratch.row, norm.data(), config_.head_dim, config_.rms_norm_eps, scratch.row);
      }
      store(row + r, {scratch.row, static_cast<size_t>(blocks * kLanes)});
    }
  }
}

void TransformerRunner::Attend(const Cursor& cursor, int layer, int item) {
  const ThreadScratch& scratch = threads_[static_cast<size_t>(cursor.thread)];
  const StepPlan::QueryTile& tile = plan_.tiles[static_cast<size_t>(item / config_.kv_heads)];
  const int head = item % config_.kv_heads;
  const int group = config_.heads / config_.kv_heads;
  const int width = group * config_.head_dim;
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
      .block_stride = layout_.block_bytes(),
      .blocks = tile.blocks,
      .out = scratch.attention_out,
      .out_stride = static_cast<size_t>(width),
      .scratch = scratch.attention,
  };
  kernels::AttentionOver(layout_.dtype, table_)(call);
  for (int r = 0; r < tile.row_count; ++r) {
    StoreActivations(attended_, tile.first_row + r, head * width, scratch.attention_out + r * width, width);
  }
}

// branch[:, 16 block ..] = acts * matrix.
void TransformerRunner::StoreBranch(const Cursor& cursor, const PackedMatrix& matrix, const Activations& acts,
                                    int block) {
  float* const product = threads_[static_cast<size_t>(cursor.thread)].product;
  for (int row = 0; row < rows(); row += kRowChunk) {
    const int count = std::min(kRowChunk, rows() - row);
    Product(matrix, acts, block, 1, row, count, product);
    for (int r = 0; r < count; ++r) {
      std::memcpy(branch_ + static_cast<size_t>(row + r) * config_.hidden_size + block * kLanes, product + r * kLanes,
                  kLanes * sizeof(float));
    }
  }
}

// 32 columns of the gate and of the up projection, and their activation: one group of the down projection's input.
void TransformerRunner::FeedForward(const Cursor& cursor, const TransformerLayer& layer, const Activations& acts,
                                    int unit) {
  float* const product = threads_[static_cast<size_t>(cursor.thread)].product;
  for (int row = 0; row < rows(); row += kRowChunk) {
    const int count = std::min(kRowChunk, rows() - row);
    float* const up = product + 2 * count * kLanes;
    Product(layer.gate, acts, 2 * unit, 2, row, count, product);
    Product(layer.up, acts, 2 * unit, 2, row, count, up);
    const auto activate = config_.activation == modelfile::Activation::kGeGluTanh ? table_.geglu : table_.swiglu;
    activate(product, up, 2 * count * kLanes, product);
    for (int r = 0; r < count; ++r) {
      float group[kGroup];
      std::memcpy(group, product + r * kLanes, sizeof(group) / 2);
      std::memcpy(group + kLanes, product + (count + r) * kLanes, sizeof(group) / 2);
      StoreActivations(activated_, row + r, unit * kGroup, group, kGroup);
    }
  }
}

void TransformerRunner::Logits(Cursor& cursor) {
  const int count = static_cast<int>(plan_.logits_rows.size());
  ThreadScratch& scratch = threads_[static_cast<size_t>(cursor.thread)];
  // Other threads added the last branch to the rows.
  if (!few_rows()) pool_->Barrier();
  for (int i = cursor.thread; i < count; i += pool_->size()) {
    const float* const hidden = Residual(cursor, plan_.logits_rows[static_cast<size_t>(i)]);
    table_.rms_norm(hidden, weights_.output_norm.data(), config_.hidden_size, config_.rms_norm_eps, scratch.row);
    StoreActivations(norm_, i, 0, scratch.row, config_.hidden_size);
  }
  pool_->Barrier();
  Share(cursor, weights_.head.col_blocks, [&](int begin, int end) { LogitsBlocks(cursor, begin, end); });
}

void TransformerRunner::LogitsBlocks(const Cursor& cursor, int begin, int end) {
  const int count = static_cast<int>(plan_.logits_rows.size());
  float* const product = threads_[static_cast<size_t>(cursor.thread)].product;
  for (int block = begin; block < end; block += kUnitBlocks) {
    const int blocks = std::min(kUnitBlocks, end - block);
    for (int row = 0; row < count; row += kRowChunk) {
      const int chunk = std::min(kRowChunk, count - row);
      Product(weights_.head, norm_, block, blocks, row, chunk, product);
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
}

}  // namespace baton::engine
