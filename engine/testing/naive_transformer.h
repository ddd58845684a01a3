// A decoder-only transformer once more, in double and without any trick: what the runner is held against in tests.
#ifndef BATON_ENGINE_TESTING_NAIVE_TRANSFORMER_H_
#define BATON_ENGINE_TESTING_NAIVE_TRANSFORMER_H_

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

// Every `size` elements of x by themselves, the size being that of the weight.
inline NaiveVector NaiveNorm(const modelfile::ModelFile& file, const std::string& name, const NaiveVector& x) {
  const modelfile::TensorView& tensor = *file.Find(name);
  const size_t size = static_cast<size_t>(tensor.cols);
  std::vector<float> weight(size);
  kernels::DequantizeRow(tensor, 0, weight.data());
  NaiveVector out(x.size());
  for (size_t first = 0; first < x.size(); first += size) {
    double squares = 0;
    for (size_t i = 0; i < size; ++i) squares += x[first + i] * x[first + i];
    const double r = 1 / std::sqrt(squares / static_cast<double>(size) + file.config().rms_norm_eps);
    for (size_t i = 0; i < size; ++i) {
      out[first + i] = x[first + i] * r * (weight[i] + (file.config().norm_weight_plus_one ? 1 : 0));
    }
  }
  return out;
}

inline double NaiveActivation(modelfile::Activation activation, double x) {
  if (activation == modelfile::Activation::kSwiGlu) return x / (1 + std::exp(-x));
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

inline void NaiveRope(const modelfile::ModelConfig& c, int layer, int token, NaiveVector& heads) {
  const double theta = c.Slides(layer) ? c.sliding_rope_theta : c.rope_theta;
  const double position = c.Slides(layer) ? token : token / static_cast<double>(c.rope_scaling_factor);
  const size_t half = static_cast<size_t>(c.head_dim) / 2;
  for (size_t head = 0; head < heads.size(); head += 2 * half) {
    for (size_t i = 0; i < half; ++i) {
      const double angle = position * std::pow(theta, -static_cast<double>(i) / static_cast<double>(half));
      double& a = heads[head + (c.rope_interleaved ? 2 * i : i)];
      double& b = heads[head + (c.rope_interleaved ? 2 * i + 1 : i + half)];
      const double turned = a * std::cos(angle) - b * std::sin(angle);
      b = b * std::cos(angle) + a * std::sin(angle);
      a = turned;
    }
  }
}

// Attention of the last position over the keys and values that it sees.
inline NaiveVector NaiveAttention(const modelfile::ModelConfig& c, int layer, const NaiveVector& q,
                                  const std::vector<NaiveVector>& keys, const std::vector<NaiveVector>& values) {
  const size_t dim = static_cast<size_t>(c.head_dim);
  NaiveVector out(q.size());
  const size_t window = c.Slides(layer) ? static_cast<size_t>(c.sliding_window) : keys.size();
  const size_t begin = keys.size() > window ? keys.size() - window : 0;
  for (size_t h = 0; h < static_cast<size_t>(c.heads); ++h) {
    const size_t kv = h / static_cast<size_t>(c.heads / c.kv_heads) * dim;
    NaiveVector weights;
    double sum = 0;
    for (size_t t = begin; t < keys.size(); ++t) {
      double score = 0;
      for (size_t d = 0; d < dim; ++d) score += q[h * dim + d] * keys[t][kv + d];
      weights.push_back(std::exp(score * c.attention_scale));
      sum += weights.back();
    }
    for (size_t t = begin; t < values.size(); ++t) {
      for (size_t d = 0; d < dim; ++d) out[h * dim + d] += weights[t - begin] / sum * values[t][kv + d];
    }
  }
  return out;
}

// [tokens][vocab], with the embedding as the head.
inline NaiveVector NaiveLogits(const modelfile::ModelFile& file, const std::vector<int32_t>& tokens) {
  const modelfile::ModelConfig& c = file.config();
  std::vector<std::vector<NaiveVector>> keys(static_cast<size_t>(c.layers)), values(static_cast<size_t>(c.layers));
  NaiveVector logits;
  for (size_t t = 0; t < tokens.size(); ++t) {
    std::vector<float> row(static_cast<size_t>(c.hidden_size));
    kernels::DequantizeRow(*file.Find("token_embd.weight"), tokens[t], row.data());
    NaiveVector x(row.begin(), row.end());
    for (double& v : x) v *= c.embedding_scale;
    const auto add = [&](const std::string& post_norm, const NaiveVector& branch) {
      const NaiveVector y = c.post_norms ? NaiveNorm(file, post_norm, branch) : branch;
      for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
    };
    for (size_t l = 0; l < keys.size(); ++l) {
      const std::string p = "blk." + std::to_string(l) + ".";
      NaiveVector in = NaiveNorm(file, p + "attn_norm.weight", x);
      NaiveVector q = NaiveProduct(file, p + "attn_q.weight", in);
      NaiveVector k = NaiveProduct(file, p + "attn_k.weight", in);
      if (c.query_key_norm) {
        q = NaiveNorm(file, p + "attn_q_norm.weight", q);
        k = NaiveNorm(file, p + "attn_k_norm.weight", k);
      }
      const int layer = static_cast<int>(l);
      NaiveRope(c, layer, static_cast<int>(t), q);
      NaiveRope(c, layer, static_cast<int>(t), k);
      keys[l].push_back(k);
      values[l].push_back(NaiveProduct(file, p + "attn_v.weight", in));
      const NaiveVector attended = NaiveAttention(c, layer, q, keys[l], values[l]);
      add(p + "post_attention_norm.weight", NaiveProduct(file, p + "attn_output.weight", attended));
      in = NaiveNorm(file, p + "ffn_norm.weight", x);
      NaiveVector gate = NaiveProduct(file, p + "ffn_gate.weight", in);
      const NaiveVector up = NaiveProduct(file, p + "ffn_up.weight", in);
      for (size_t i = 0; i < gate.size(); ++i) gate[i] = NaiveActivation(c.activation, gate[i]) * up[i];
      add(p + "post_ffw_norm.weight", NaiveProduct(file, p + "ffn_down.weight", gate));
    }
    const NaiveVector row_logits = NaiveProduct(file, "token_embd.weight", NaiveNorm(file, "output_norm.weight", x));
    logits.insert(logits.end(), row_logits.begin(), row_logits.end());
  }
  return logits;
}

}  // namespace baton::engine

#endif  // BATON_ENGINE_TESTING_NAIVE_TRANSFORMER_H_
