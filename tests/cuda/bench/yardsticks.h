// What the engine on a device is held against, measured in the same run: the device's memory, and products by cuBLASLt.
#ifndef BATON_TESTS_CUDA_BENCH_YARDSTICKS_H_
#define BATON_TESTS_CUDA_BENCH_YARDSTICKS_H_

#include <cstddef>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/engine/figure.h"
#include "engine/cuda/device.h"
#include "tests/cuda/bench/bench_shape.h"
#include "tests/cuda/bench/cublaslt_api.h"

namespace baton::engine::cuda {

// Seconds of each of `rounds` calls, after one that is not timed.
std::vector<double> SecondsOf(int rounds, const std::function<void()>& call);

// Fills memory of the device, a multiple of 16 bytes, with bf16 numbers of random signs and of magnitudes from
// `least`, a power of two, to twice that; waits for it.
absl::Status FillRandomly(const Device& device, CUdeviceptr to, size_t bytes, float least);

// GB/s of a kernel that reads the shape's memory, and of the driver's copy, of which bytes that are read and bytes that
// are written both count. RESOURCE_EXHAUSTED.
absl::StatusOr<std::vector<bench::Figure>> MeasureMemory(const Device& device, const BenchShape& shape);

struct CublasLtFigures {
  // TFLOP/s of the product of gate and up at each of the shape's prompts, by the fastest algorithm that the library
  // proposes.
  std::vector<bench::Figure> figures;
  // Between its product and that of the engine's kernel, as a share of the largest value: rounding to bf16 makes some
  // 0.004 of it. A test of both.
  double largest_difference = 0;
};
absl::StatusOr<CublasLtFigures> MeasureCublasLt(const CublasLtApi& api, const Device& device, const BenchShape& shape);

}  // namespace baton::engine::cuda

#endif  // BATON_TESTS_CUDA_BENCH_YARDSTICKS_H_
