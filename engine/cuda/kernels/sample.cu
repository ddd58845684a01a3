// Steps 6 to 9 of engine/sampler.h, with the same bits: weights are float, sums double and serial, so the token is the
// one that the CPU draws. A CTA has a row. Tokens are sorted only as far down as the draw needs them, in chunks that
// fit shared memory.
#include "engine/cuda/kernels/key.cuh"
#include "engine/cuda/kernels/random.cuh"

namespace baton::engine::cuda {
namespace {

// Keys that are sorted at a time.
constexpr int kChunk = 2 * kRowThreads;
// Lanes of the sum over the whole vocabulary.
constexpr int kVocabLanes = 16;
constexpr float kGreedyTemperature = 1e-5f;
constexpr float kMostGap = 30.0f;
constexpr int kBands = 6;

struct SampleShared {
  uint64_t keys[kChunk];
  float weights[kChunk];
  uint64_t least[kRowWarps];
  double lanes[kVocabLanes];
  int count;
  int is_done;
};

class RowSampler {
 public:
  __device__ __forceinline__ RowSampler(const float* logits, int vocab, const SampleRow& row, float largest,
                                        SampleShared& shared)
      : logits_(logits),
        vocab_(vocab),
        row_(row),
        largest_(largest),
        per_temperature_(__fdiv_rn(1.0f, row.temperature)),
        floor_(__fsub_rn(largest, __fmul_rn(kMostGap, row.temperature))),
        shared_(shared) {}

  // The token, for thread 0.
  __device__ __forceinline__ int Draw() const {
    int kept = vocab_;
    double total = 0.0;
    if (row_.top_k > 0 && row_.top_k < vocab_) {
      kept = row_.top_k;
      int rank = 0;
      ForSorted([&](float weight, int) {
        total += weight;
        return ++rank < kept;
      });
    } else if (row_.top_p < 1.0f || row_.min_p == 0.0f) {
      total = TotalWeight();
    }
    if (row_.top_p < 1.0f || row_.min_p > 0.0f) Filter(kept, total);
    const double target = static_cast<double>(UniformDraw(row_.seed, row_.position)) * total;
    double running = 0.0;
    int rank = 0;
    int token = 0;
    ForSorted([&](float weight, int id) {
      if (rank == kept) return false;
      ++rank;
      token = id;
      running += weight;
      return running <= target;
    });
    return token;
  }

 private:
  __device__ __forceinline__ float Weight(float logit) const {
    return logit >= floor_ ? DetExp(__fmul_rn(__fsub_rn(logit, largest_), per_temperature_)) : 0.0f;
  }

  // top_p and min_p: how many tokens are kept, and their weight. For thread 0.
  __device__ __forceinline__ void Filter(int& kept, double& total) const {
    const bool has_enough = row_.top_p < 1.0f;
    const double enough = static_cast<double>(row_.top_p) * total;
    const int limit = kept;
    total = 0.0;
    kept = 0;
    ForSorted([&](float weight, int) {
      if (kept == limit || (has_enough && total >= enough) || weight < row_.min_p) return false;
      total += weight;
      ++kept;
      return true;
    });
  }

  // Each lane of the sum is a warp, which adds what is not zero in ascending order.
  __device__ __forceinline__ double TotalWeight() const {
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    if (warp < kVocabLanes) {
      double sum = 0.0;
      for (int i = 0; i < vocab_; i += kWarp * kVocabLanes) {
        const int id = i + lane * kVocabLanes + warp;
        const float weight = id < vocab_ ? Weight(__ldg(logits_ + id)) : 0.0f;
        for (unsigned left = __ballot_sync(kAllLanes, weight > 0.0f); left != 0; left &= left - 1) {
          sum += __shfl_sync(kAllLanes, weight, __ffs(static_cast<int>(left)) - 1);
        }
      }
      if (lane == 0) shared_.lanes[warp] = sum;
    }
    __syncthreads();
    double lanes[kVocabLanes / 2];
#pragma unroll
    for (int i = 0; i < 8; ++i) lanes[i] = shared_.lanes[i] + shared_.lanes[i + 8];
#pragma unroll
    for (int i = 0; i < 4; ++i) lanes[i] += lanes[i + 4];
    lanes[0] += lanes[2];
    lanes[1] += lanes[3];
    return lanes[0] + lanes[1];
  }

  // Calls fn(weight, token) in thread 0 for tokens in order, until it returns false.
  template <typename Fn>
  __device__ __forceinline__ void ForSorted(Fn fn) const {
    uint64_t from = 0;
#pragma unroll 1
    for (int band = 0; band < kBands; ++band) {
      // 1, 2, 4, 8, 16 and the rest.
      const float gap = band + 1 == kBands ? kMostGap : static_cast<float>(1 << band);
      const float low = __fsub_rn(largest_, __fmul_rn(gap, row_.temperature));
      const uint64_t end = (static_cast<uint64_t>(OrderOf(low)) + 1) << 32;
      while (from < end) {
        uint64_t to = end;
        int count = Collect(from, to);
        while (count > kChunk) {
          to = from + (to - from) / 2;
          count = Collect(from, to);
        }
        Sort(count);
        if (Visit(count, fn)) return;
        from = to;
      }
    }
  }

  // Puts keys in [from, to) into shared memory, as many as fit; returns how many there are.
  __device__ __forceinline__ int Collect(uint64_t from, uint64_t to) const {
    // Every thread has read what shared memory held.
    __syncthreads();
    if (threadIdx.x == 0) shared_.count = 0;
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < vocab_; i += kRowThreads) {
      const uint64_t key = KeyOf(__ldg(logits_ + i), i);
      if (key < from || key >= to) continue;
      const int at = atomicAdd(&shared_.count, 1);
      if (at < kChunk) shared_.keys[at] = key;
    }
    __syncthreads();
    return shared_.count;
  }

  // Bitonic, of the next power of two.
  __device__ __forceinline__ void Sort(int count) const {
    const int thread = static_cast<int>(threadIdx.x);
    int size = 2;
    while (size < count) size *= 2;
    for (int i = count + thread; i < size; i += kRowThreads) shared_.keys[i] = kNoKey;
    __syncthreads();
#pragma unroll 1
    for (int run = 2; run <= size; run *= 2) {
#pragma unroll 1
      for (int step = run / 2; step > 0; step /= 2) {
        const int i = 2 * thread - (thread & (step - 1));
        if (i < size) {
          const uint64_t a = shared_.keys[i];
          const uint64_t b = shared_.keys[i + step];
          if ((a > b) == ((i & run) == 0)) {
            shared_.keys[i] = b;
            shared_.keys[i + step] = a;
          }
        }
        __syncthreads();
      }
    }
  }

  // Whether fn has had enough.
  template <typename Fn>
  __device__ __forceinline__ bool Visit(int count, Fn fn) const {
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kRowThreads) {
      shared_.weights[i] = Weight(LogitOf(shared_.keys[i]));
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int i = 0;
      while (i < count && fn(shared_.weights[i], TokenOf(shared_.keys[i]))) ++i;
      shared_.is_done = i < count;
    }
    __syncthreads();
    return shared_.is_done != 0;
  }

  const float* const logits_;
  const int vocab_;
  const SampleRow& row_;
  const float largest_;
  const float per_temperature_;
  const float floor_;
  SampleShared& shared_;
};

}  // namespace

extern "C" __global__ void __launch_bounds__(kRowThreads, 1) sample(const __grid_constant__ SampleParams p) {
  AwaitKernelsBefore();
  __shared__ SampleShared shared;
  const float* const logits = p.logits + static_cast<size_t>(blockIdx.x) * p.vocab;
  const SampleRow row = p.rows[blockIdx.x];
  const uint64_t least = LeastKey(logits, p.vocab, shared.least);
  const float largest = LogitOf(least);
  int token = TokenOf(least);
  if (row.temperature >= kGreedyTemperature && isfinite(largest)) {
    token = RowSampler(logits, p.vocab, row, largest, shared).Draw();
  }
  if (threadIdx.x == 0) p.tokens[blockIdx.x] = token;
}

}  // namespace baton::engine::cuda
