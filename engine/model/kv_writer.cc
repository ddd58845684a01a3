#include "engine/model/kv_writer.h"

#include <cstring>

#include "engine/kernels/trigonometry.h"
#include "modelfile/limits.h"

namespace baton::engine {

using kernels::kLanes;

namespace {

std::vector<KvLayout::Place> PlacesOf(const KvLayout& layout) {
  std::vector<KvLayout::Place> places;
  for (int layer = 0; layer < layout.layers; ++layer) places.push_back(layout.PlaceOf(layer));
  return places;
}

}  // namespace

KvWriter::KvWriter(const modelfile::ModelConfig& config, const KvLayout& layout, const kernels::KernelTable& table,
                   const StepPlan& plan, int max_rows)
    : config_(config),
      layout_(layout),
      table_(table),
      plan_(plan),
      places_(PlacesOf(layout)),
      block_bytes_(layout.block_bytes()),
      is_f32_(layout.dtype == KvDtype::kF32),
      query_stride_(static_cast<size_t>(config.heads) * config.head_dim * (is_f32_ ? sizeof(float) : sizeof(uint16_t))),
      full_rope_(MakeRope(config.rope_theta, config.rope_scaling_factor, max_rows)),
      query_(static_cast<size_t>(max_rows) * query_stride_) {
  if (!config.sliding_layers.empty()) sliding_rope_ = MakeRope(config.sliding_rope_theta, 1.0f, max_rows);
}

// Frequencies are 1 / (scaling_factor * theta^(2i / head_dim)).
KvWriter::Rope KvWriter::MakeRope(float theta, float scaling_factor, int max_rows) const {
  const size_t bytes = static_cast<size_t>(max_rows) * config_.head_dim * sizeof(float);
  Rope rope{.inverse_frequency = {}, .cosine = kernels::AlignedBuffer(bytes), .sine = kernels::AlignedBuffer(bytes)};
  for (int i = 0; i < config_.head_dim / 2; ++i) {
    const double power = kernels::InversePower(theta, 2.0 * i / config_.head_dim);
    rope.inverse_frequency.push_back(static_cast<float>(power) / scaling_factor);
  }
  return rope;
}

void KvWriter::Turn(int row) {
  const float position = static_cast<float>(plan_.rows[static_cast<size_t>(row)].position);
  for (const Rope* rope : {&full_rope_, &sliding_rope_}) {
    const size_t half = rope->inverse_frequency.size();
    float* const cosine = rope->cosine.as<float>() + static_cast<size_t>(row) * 2 * half;
    float* const sine = rope->sine.as<float>() + static_cast<size_t>(row) * 2 * half;
    for (size_t i = 0; i < half; ++i) {
      // The angle is rounded to f32, as transformers does.
      const kernels::SinCos turn = kernels::SineCosine(rope->inverse_frequency[i] * position);
      cosine[2 * i] = cosine[2 * i + 1] = static_cast<float>(turn.cosine);
      sine[2 * i] = -static_cast<float>(turn.sine);
      sine[2 * i + 1] = static_cast<float>(turn.sine);
    }
  }
}

void KvWriter::Rotate(const Place& at, const float* y, float* turned) const {
  const Rope& rope = config_.Slides(at.layer) ? sliding_rope_ : full_rope_;
  const size_t turn = static_cast<size_t>(at.row) * config_.head_dim + at.column % config_.head_dim;
  table_.rope(y, rope.cosine.as<float>() + turn, rope.sine.as<float>() + turn, turned);
}

void KvWriter::StoreQuery(const Place& to, absl::Span<const float> y) {
  uint8_t* const row = query_.data() + static_cast<size_t>(to.row) * query_stride_;
  for (int i = 0; i < static_cast<int>(y.size()); i += kLanes) {
    const int column = to.column + i;
    float turned[kLanes];
    Rotate({to.layer, to.row, column}, &y[static_cast<size_t>(i)], turned);
    if (is_f32_) {
      std::memcpy(reinterpret_cast<float*>(row) + column, turned, sizeof(turned));
    } else {
      table_.to_bf16(turned, reinterpret_cast<uint16_t*>(row) + column);
    }
  }
}

uint8_t* KvWriter::HeadPart(int layer, bool value, int head) const {
  const size_t index = static_cast<size_t>(places_[static_cast<size_t>(layer)].index);
  const size_t part = (index * 2 + (value ? 1 : 0)) * config_.kv_heads + head;
  return pool_ + part * layout_.head_part_bytes();
}

uint8_t* KvWriter::HeadPart(const Place& to, bool value) const {
  const BlockId block = plan_.RowBlock(GroupOf(to.layer), to.row);
  return HeadPart(to.layer, value, to.column / config_.head_dim) + static_cast<size_t>(block) * block_bytes_;
}

float* KvWriter::Scale(uint8_t* part, int slot) const {
  return reinterpret_cast<float*>(part + static_cast<size_t>(kBlockTokens * config_.head_dim)) + slot;
}

void KvWriter::StoreKey(const Place& to, absl::Span<const float> y) {
  const int count = static_cast<int>(y.size());
  const int offset = to.column % config_.head_dim;
  const int slot = plan_.rows[static_cast<size_t>(to.row)].slot;
  float turned[modelfile::kMaxHeadDim];
  for (int i = 0; i < count; i += kLanes) {
    Rotate({to.layer, to.row, to.column + i}, &y[static_cast<size_t>(i)], turned + i);
  }
  uint8_t* const part = HeadPart(to, false);
  if (layout_.dtype == KvDtype::kInt8) {
    int8_t q[modelfile::kMaxHeadDim];
    table_.quantize_head(turned, count, q, Scale(part, slot));
    for (int i = 0; i < count; ++i) part[i * kBlockTokens + slot] = static_cast<uint8_t>(q[i]);
    return;
  }
  // Words of one token are 64 bytes apart.
  uint8_t* const words = part + slot * 4;
  if (is_f32_) {
    for (int i = 0; i < count; ++i) std::memcpy(words + (offset + i) * 64, turned + i, 4);
    return;
  }
  for (int i = 0; i < count; i += kLanes) {
    uint16_t rounded[kLanes];
    table_.to_bf16(turned + i, rounded);
    for (int j = 0; j < kLanes; j += 2) std::memcpy(words + (offset + i + j) / 2 * 64, rounded + j, 4);
  }
}

void KvWriter::StoreValue(const Place& to, absl::Span<const float> y) {
  const int count = static_cast<int>(y.size());
  const int offset = to.column % config_.head_dim;
  const int slot = plan_.rows[static_cast<size_t>(to.row)].slot;
  uint8_t* const part = HeadPart(to, true);
  if (is_f32_) {
    std::memcpy(part + static_cast<size_t>(slot * config_.head_dim + offset) * 4, y.data(), y.size() * sizeof(float));
    return;
  }
  // Two tokens share the words.
  uint8_t* const pair = part + slot / 2 * 2 * config_.head_dim * (layout_.dtype == KvDtype::kInt8 ? 1 : 2);
  if (layout_.dtype == KvDtype::kInt8) {
    int8_t q[modelfile::kMaxHeadDim];
    table_.quantize_head(y.data(), count, q, Scale(part, slot));
    for (int i = 0; i < count; i += kLanes) std::memcpy(pair + 2 * i + slot % 2 * kLanes, q + i, kLanes);
    return;
  }
  for (int i = 0; i < count; i += kLanes) {
    uint16_t rounded[kLanes];
    table_.to_bf16(&y[static_cast<size_t>(i)], rounded);
    for (int j = 0; j < kLanes; ++j) std::memcpy(pair + (offset + i + j) * 4 + slot % 2 * 2, rounded + j, 2);
  }
}

const uint8_t* KvWriter::Query(int row, int head) const {
  const size_t head_bytes = query_stride_ / static_cast<size_t>(config_.heads);
  return query_.data() + static_cast<size_t>(row) * query_stride_ + static_cast<size_t>(head) * head_bytes;
}

}  // namespace baton::engine
