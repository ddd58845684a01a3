#include "engine/model/kv_writer.h"

#include <cstring>

#include "engine/kernels/trigonometry.h"
#include "modelfile/limits.h"

namespace baton::engine {

using kernels::kLanes;

KvWriter::KvWriter(const modelfile::ModelConfig& config, const KvLayout& layout, const kernels::KernelTable& table,
                   const StepPlan& plan, int max_rows)
    : config_(config),
      layout_(layout),
      table_(table),
      plan_(plan),
      places_(layout.Places()),
      block_bytes_(layout.block_bytes()),
      is_f32_(layout.dtype == KvDtype::kF32),
      query_stride_(static_cast<size_t>(config.heads) * config.head_dim * (is_f32_ ? sizeof(float) : sizeof(uint16_t))),
      full_rope_(MakeRope(config.rope_theta, config.rope_scaling_factor, max_rows)),
      query_(static_cast<size_t>(max_rows) * query_stride_) {
  if (!config.sliding_layers.empty()) sliding_rope_ = MakeRope(config.sliding_rope_theta, 1.0f, max_rows);
  for (kernels::AlignedBuffer* buffer :
       {&full_rope_.cosine, &full_rope_.sine, &sliding_rope_.cosine, &sliding_rope_.sine, &query_}) {
    buffer->Touch();
  }
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

void KvWriter::PrepareRotation(int row) {
  const float position = static_cast<float>(plan_.rows[static_cast<size_t>(row)].position);
  for (const Rope* rope : {&full_rope_, &sliding_rope_}) {
    const size_t half = rope->inverse_frequency.size();
    float* const cosine = rope->cosine.as<float>() + static_cast<size_t>(row) * 2 * half;
    float* const sine = rope->sine.as<float>() + static_cast<size_t>(row) * 2 * half;
    for (size_t i = 0; i < half; ++i) {
      // The angle is rounded to f32, as transformers does.
      const kernels::SinCos angle = kernels::SineCosine(rope->inverse_frequency[i] * position);
      cosine[2 * i] = cosine[2 * i + 1] = static_cast<float>(angle.cosine);
      sine[2 * i] = -static_cast<float>(angle.sine);
      sine[2 * i + 1] = static_cast<float>(angle.sine);
    }
  }
}

void KvWriter::Rotate(const Part& part, float* y) const {
  const Rope& rope = config_.Slides(part.layer) ? sliding_rope_ : full_rope_;
  const size_t first = static_cast<size_t>(part.row) * config_.head_dim + part.column % config_.head_dim;
  const bool whole = part.width == config_.head_dim;
  table_.rope(rope.cosine.as<float>() + first, rope.sine.as<float>() + first,
              static_cast<size_t>(whole ? kLanes : config_.head_dim), y, part.rows * part.width / kLanes);
}

void KvWriter::StoreQuery(const Part& part, float* y) {
  Rotate(part, y);
  uint8_t* row = query_.data() + static_cast<size_t>(part.row) * query_stride_;
  for (int r = 0; r < part.rows; ++r, row += query_stride_, y += part.width) {
    if (is_f32_) {
      std::memcpy(reinterpret_cast<float*>(row) + part.column, y, static_cast<size_t>(part.width) * sizeof(float));
    } else {
      table_.to_bf16(y, part.width, reinterpret_cast<uint16_t*>(row) + part.column);
    }
  }
}

uint8_t* KvWriter::HeadPart(int layer, bool value, int head) const {
  const size_t index = static_cast<size_t>(places_[static_cast<size_t>(layer)].index);
  const size_t part = (index * 2 + (value ? 1 : 0)) * config_.kv_heads + head;
  return pool_ + part * layout_.head_part_bytes();
}

template <typename Fn>
void KvWriter::ForRows(const Part& part, bool value, Fn fn) const {
  uint8_t* const first = HeadPart(part.layer, value, part.column / config_.head_dim);
  const int group = GroupOf(part.layer);
  for (int i = 0; i < part.rows; ++i) {
    const int row = part.row + i;
    fn(i, first + static_cast<size_t>(plan_.RowBlock(group, row)) * block_bytes_,
       plan_.rows[static_cast<size_t>(row)].slot);
  }
}

float* KvWriter::Scale(uint8_t* head, int slot) const {
  return reinterpret_cast<float*>(head + static_cast<size_t>(kBlockTokens * config_.head_dim)) + slot;
}

void KvWriter::Prefetch(const Part& part, bool value) const {
  // K has one run of lines; V has one for each vector of tokens.
  const int word_bytes = layout_.dtype == KvDtype::kInt8 ? 2 : 4;
  const int vectors = is_f32_ ? kBlockTokens : kBlockTokens / 2;
  const int run = part.width * word_bytes * (value ? 1 : vectors);
  const int first = part.column % config_.head_dim * (run / part.width);
  ForRows(part, value, [&](int i, const uint8_t* head, int slot) {
    if (i > 0 && slot > 0) return;
    for (int v = 0; v < (value ? vectors : 1); ++v) {
      const uint8_t* const from = head + first + v * config_.head_dim * word_bytes;
      for (int line = 0; line < run; line += 64) __builtin_prefetch(from + line, 1);
    }
  });
}

void KvWriter::StoreKey(const Part& part, float* y) {
  Rotate(part, y);
  const int width = part.width;
  const int offset = part.column % config_.head_dim;
  // Words of one token are 64 bytes apart.
  ForRows(part, false, [&](int r, uint8_t* head, int slot) {
    const float* const key = y + static_cast<size_t>(r) * width;
    if (layout_.dtype == KvDtype::kInt8) {
      int8_t q[modelfile::kMaxHeadDim];
      table_.quantize_head(key, width, q, Scale(head, slot));
      for (int i = 0; i < width; ++i) head[i * kBlockTokens + slot] = static_cast<uint8_t>(q[i]);
    } else if (is_f32_) {
      for (int i = 0; i < width; ++i) std::memcpy(head + (offset + i) * 64 + slot * 4, key + i, 4);
    } else {
      uint16_t rounded[modelfile::kMaxHeadDim];
      table_.to_bf16(key, width, rounded);
      for (int i = 0; i < width; i += 2) std::memcpy(head + (offset + i) * 32 + slot * 4, rounded + i, 4);
    }
  });
}

void KvWriter::StoreValue(const Part& part, const float* y) {
  const int width = part.width;
  const int offset = part.column % config_.head_dim;
  // In int8 and bf16 a word holds two tokens.
  ForRows(part, true, [&](int r, uint8_t* head, int slot) {
    const float* const value = y + static_cast<size_t>(r) * width;
    if (layout_.dtype == KvDtype::kInt8) {
      int8_t q[modelfile::kMaxHeadDim];
      table_.quantize_head(value, width, q, Scale(head, slot));
      uint8_t* const to = head + slot / 2 * 2 * config_.head_dim + slot % 2 * kLanes;
      for (int i = 0; i < width; i += kLanes) std::memcpy(to + 2 * i, q + i, kLanes);
    } else if (is_f32_) {
      std::memcpy(head + static_cast<size_t>(slot * config_.head_dim + offset) * 4, value,
                  static_cast<size_t>(width) * sizeof(float));
    } else {
      uint16_t rounded[modelfile::kMaxHeadDim];
      table_.to_bf16(value, width, rounded);
      uint8_t* const to = head + (slot / 2 * config_.head_dim + offset) * 4 + slot % 2 * 2;
      for (int i = 0; i < width; ++i) std::memcpy(to + i * 4, rounded + i, 2);
    }
  });
}

// These two write where StoreKey and StoreValue do.
void KvWriter::ZeroKey(uint8_t* head, int slot) const {
  const bool is_int8 = layout_.dtype == KvDtype::kInt8;
  const int stride = is_int8 ? kBlockTokens : kBlockTokens * 4;
  const int words = is_int8 || is_f32_ ? config_.head_dim : config_.head_dim / 2;
  for (int i = 0; i < words; ++i) {
    std::memset(head + static_cast<size_t>(i) * stride + (is_int8 ? slot : slot * 4), 0, is_int8 ? 1 : 4);
  }
}

void KvWriter::ZeroValue(uint8_t* head, int slot) const {
  const int head_dim = config_.head_dim;
  if (layout_.dtype == KvDtype::kInt8) {
    uint8_t* const to = head + slot / 2 * 2 * head_dim + slot % 2 * kLanes;
    for (int i = 0; i < head_dim; i += kLanes) std::memset(to + 2 * i, 0, kLanes);
  } else if (is_f32_) {
    std::memset(head + static_cast<size_t>(slot * head_dim) * 4, 0, static_cast<size_t>(head_dim) * 4);
  } else {
    uint8_t* const to = head + slot / 2 * head_dim * 4 + slot % 2 * 2;
    for (int i = 0; i < head_dim; ++i) std::memset(to + i * 4, 0, 2);
  }
}

void KvWriter::ZeroRows(BlockId block, int32_t first_row) {
  const size_t part_bytes = layout_.head_part_bytes();
  uint8_t* head = pool_ + static_cast<size_t>(block) * block_bytes_;
  for (int layer = 0; layer < layout_.group_layers(); ++layer) {
    for (const bool value : {false, true}) {
      for (int i = 0; i < config_.kv_heads; ++i, head += part_bytes) {
        for (int slot = first_row; slot < kBlockTokens; ++slot) {
          value ? ZeroValue(head, slot) : ZeroKey(head, slot);
          if (layout_.dtype == KvDtype::kInt8) *Scale(head, slot) = 0;
        }
      }
    }
  }
}

const uint8_t* KvWriter::Query(int row, int head) const {
  const size_t head_bytes = query_stride_ / static_cast<size_t>(config_.heads);
  return query_.data() + static_cast<size_t>(row) * query_stride_ + static_cast<size_t>(head) * head_bytes;
}

}  // namespace baton::engine
