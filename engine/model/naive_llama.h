// The Llama architecture once more, in double and without any trick: what the runner is held against in tests.
#ifndef BATON_ENGINE_MODEL_NAIVE_LLAMA_H_
#define BATON_ENGINE_MODEL_NAIVE_LLAMA_H_

#include <cmath>
#include <string>
#include <vector>

#include "engine/kernels/packed_matrix.h"
#include "modelfile/model_file.h"

namespace baton::engine {

using NaiveVector = std::vector<double>;

inline NaiveVector NaiveProduct(const modelfile::ModelFile& file, const std::string& name, const NaiveVector& x) {
  const modelfile::TensorView& tensor = *file.Find(name);
  NaiveVector out(static_cast<size_t>(tensor.rows));
  std::vector<float> row(static_cast<size_t>(tensor.cols));
  for (size_t n = 0; n < out.size(); ++n) {
    kernels::DequantizeRow(tensor, static_cast<int64_t>(n), row.data());
    for (size_t k = 0; k < row.size(); ++k) out[n] += row[k] * x[k];
  }
  return out;
}

inline NaiveVector NaiveNorm(const modelfile::ModelFile& file, const std::string& name, const NaiveVector& x) {
  std::vector<float> weight(x.size());
  kernels::DequantizeRow(*file.Find(name), 0, weight.data());
  double squares = 0;
  for (const double v : x) squares += v * v;
  const double r = 1 / std::sqrt(squares / static_cast<double>(x.size()) + file.config().rms_norm_eps);
  NaiveVector out(x.size());
  for (size_t i = 0; i < x.size(); ++i) out[i] = x[i] * r * weight[i];
  return out;
}

inline void NaiveRope(const modelfile::ModelConfig& c, int position, NaiveVector& heads) {
  const size_t half = static_cast<size_t>(c.head_dim) / 2;
  for (size_t head = 0; head < heads.size(); head += 2 * half) {
    for (size_t i = 0; i < half; ++i) {
      const double angle =
          position * std::pow(static_cast<double>(c.rope_theta), -static_cast<double>(i) / static_cast<double>(half));
      double& a = heads[head + (c.rope_interleaved ? 2 * i : i)];
      double& b = heads[head + (c.rope_interleaved ? 2 * i + 1 : i + half)];
      const double turned = a * std::cos(angle) - b * std::sin(angle);
      b = b * std::cos(angle) + a * std::sin(angle);
      a = turned;
    }
  }
}

// Attention of the last position over all keys and values.
inline NaiveVector NaiveAttention(const modelfile::ModelConfig& c, const NaiveVector& q,
                                  const std::vector<NaiveVector>& keys, const std::vector<NaiveVector>& values) {
  const size_t dim = static_cast<size_t>(c.head_dim);
  NaiveVector out(q.size());
  for (size_t h = 0; h < static_cast<size_t>(c.heads); ++h) {
    const size_t kv = h / static_cast<size_t>(c.heads / c.kv_heads) * dim;
    NaiveVector weights;
    double sum = 0;
    for (const NaiveVector& key : keys) {
      double score = 0;
      for (size_t d = 0; d < dim; ++d) score += q[h * dim + d] * key[kv + d];
      weights.push_back(std::exp(score / std::sqrt(static_cast<double>(dim))));
      sum += weights.back();
    }
    for (size_t t = 0; t < values.size(); ++t) {
      for (size_t d = 0; d < dim; ++d) out[h * dim + d] += weights[t] / sum * values[t][kv + d];
    }
  }
  return out;
}

// [tokens][vocab], with the embedding as the head.
inline NaiveVector NaiveLlamaLogits(const modelfile::ModelFile& file, const std::vector<int32_t>& tokens) {
  const modelfile::ModelConfig& c = file.config();
  std::vector<std::vector<NaiveVector>> keys(static_cast<size_t>(c.layers)), values(static_cast<size_t>(c.layers));
  NaiveVector logits;
  for (size_t t = 0; t < tokens.size(); ++t) {
    std::vector<float> row(static_cast<size_t>(c.hidden_size));
    kernels::DequantizeRow(*file.Find("token_embd.weight"), tokens[t], row.data());
    NaiveVector x(row.begin(), row.end());
    for (size_t l = 0; l < keys.size(); ++l) {
      const std::string p = "blk." + std::to_string(l) + ".";
      NaiveVector in = NaiveNorm(file, p + "attn_norm.weight", x);
      NaiveVector q = NaiveProduct(file, p + "attn_q.weight", in);
      NaiveVector k = NaiveProduct(file, p + "attn_k.weight", in);
      NaiveRope(c, static_cast<int>(t), q);
      NaiveRope(c, static_cast<int>(t), k);
      keys[l].push_back(k);
      values[l].push_back(NaiveProduct(file, p + "attn_v.weight", in));
      const NaiveVector attended =
          NaiveProduct(file, p + "attn_output.weight", NaiveAttention(c, q, keys[l], values[l]));
      for (size_t i = 0; i < x.size(); ++i) x[i] += attended[i];
      in = NaiveNorm(file, p + "ffn_norm.weight", x);
      NaiveVector gate = NaiveProduct(file, p + "ffn_gate.weight", in);
      const NaiveVector up = NaiveProduct(file, p + "ffn_up.weight", in);
      for (size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
      const NaiveVector down = NaiveProduct(file, p + "ffn_down.weight", gate);
      for (size_t i = 0; i < x.size(); ++i) x[i] += down[i];
    }
    const NaiveVector row_logits = NaiveProduct(file, "token_embd.weight", NaiveNorm(file, "output_norm.weight", x));
    logits.insert(logits.end(), row_logits.begin(), row_logits.end());
  }
  return logits;
}

}  // namespace baton::engine

#endif  // BATON_ENGINE_MODEL_NAIVE_LLAMA_H_
