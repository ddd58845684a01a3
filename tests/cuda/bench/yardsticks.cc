#include "tests/cuda/bench/yardsticks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/clock.h"
#include "common/status.h"
#include "engine/cuda/kernel_set.h"
#include "engine/kernels/half.h"
#include "tests/cuda/bench/bench_kernels.h"
#include "tests/cuda/bench/cublaslt_product.h"

namespace baton::engine::cuda {
namespace {

constexpr size_t kWordBytes = 16;
constexpr int kBlocksPerMultiprocessor = 8;
// A round of a memory figure, and of a product: enough that starting and waiting weigh nothing.
constexpr int kLaunchesPerRound = 4;
// Weights and activations of the products.
constexpr float kLeastWeight = 0x1p-6f;
constexpr float kLeastAct = 0x1p-1f;
// Rows of the engine's product beside that of cuBLASLt.
constexpr int kComparedRows = 16;

LaunchShape GridFor(const Device& device, uint64_t words) {
  const uint64_t most = static_cast<uint64_t>(device.multiprocessors()) * kBlocksPerMultiprocessor;
  return {.x = static_cast<uint32_t>(std::clamp<uint64_t>(words / kBenchThreads, 1, most)), .threads = kBenchThreads};
}

bench::Figure MemoryFigure(const char* name, size_t bytes, size_t bytes_moved, const std::vector<double>& seconds) {
  bench::Figure figure{.part = "memory", .name = absl::StrFormat("%s %d MiB", name, bytes >> 20), .unit = "GB/s"};
  figure.parameters["way"] = name;
  figure.parameters["bytes"] = bytes;
  std::vector<double> rates;
  for (const double one : seconds) rates.push_back(static_cast<double>(bytes_moved) * kLaunchesPerRound / one / 1e9);
  bench::SetRates(std::move(rates), figure);
  return figure;
}

// The operands of a product, in memory of the device.
struct Operands {
  DeviceBuffer weights;  // bf16 [n][k]
  DeviceBuffer acts;     // bf16 [rows][k]
  DeviceBuffer out;      // bf16 [rows][n]
};

absl::StatusOr<Operands> MakeOperands(const Device& device, const ProductSize& size) {
  const auto bytes = [](int rows, int columns) {
    return static_cast<size_t>(rows) * static_cast<size_t>(columns) * sizeof(Bf16);
  };
  Operands operands;
  BATON_ASSIGN_OR_RETURN(operands.weights, DeviceBuffer::Allocate(device, bytes(size.n, size.k)));
  BATON_ASSIGN_OR_RETURN(operands.acts, DeviceBuffer::Allocate(device, bytes(size.rows, size.k)));
  BATON_ASSIGN_OR_RETURN(operands.out, DeviceBuffer::Allocate(device, bytes(size.rows, size.n)));
  BATON_RETURN_IF_ERROR(FillRandomly(device, operands.weights.address(), operands.weights.bytes(), kLeastWeight));
  BATON_RETURN_IF_ERROR(FillRandomly(device, operands.acts.address(), operands.acts.bytes(), kLeastAct));
  return operands;
}

// Leaves the product of the first algorithm in `operands.out`.
absl::StatusOr<bench::Figure> MeasureProduct(const CublasLtApi& api, const Device& device, const ProductSize& size,
                                             int rounds, const Operands& operands) {
  BATON_ASSIGN_OR_RETURN(const CublasLtProduct product, CublasLtProduct::Create(api, device, size));
  const auto run = [&](int algorithm) {
    return product.Run(algorithm, operands.weights.at<void>(), operands.acts.at<void>(), operands.out.at<void>());
  };
  std::vector<double> fastest;
  for (int algorithm = product.algorithms() - 1; algorithm >= 0; --algorithm) {
    absl::Status status;
    const std::vector<double> seconds = SecondsOf(rounds, [&] {
      for (int i = 0; i < kLaunchesPerRound && status.ok(); ++i) status = run(algorithm);
      device.Require(device.api().stream_synchronize(nullptr), "cuStreamSynchronize");
    });
    BATON_RETURN_IF_ERROR(status);
    std::vector<double> rates;
    for (const double one : seconds) rates.push_back(size.flops() * kLaunchesPerRound / one / 1e12);
    std::sort(rates.begin(), rates.end());
    if (fastest.empty() || rates[rates.size() / 2] > fastest[fastest.size() / 2]) fastest = std::move(rates);
  }
  bench::Figure figure{
      .part = "cublaslt", .name = absl::StrFormat("%d rows, %d x %d", size.rows, size.n, size.k), .unit = "TFLOP/s"};
  figure.parameters = {{"rows", size.rows}, {"n", size.n}, {"k", size.k}, {"algorithms", product.algorithms()}};
  bench::SetRates(std::move(fastest), figure);
  return figure;
}

// Multiplies the first rows by the engine's kernel, and compares them with what lies in `operands.out`.
absl::StatusOr<double> LargestDifference(const Device& device, const ProductSize& size, const Operands& operands) {
  BATON_ASSIGN_OR_RETURN(const KernelSet set, KernelSet::Load(device));
  BATON_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(device));
  const int rows = std::min(size.rows, kComparedRows);
  const size_t count = static_cast<size_t>(rows) * static_cast<size_t>(size.n);
  BATON_ASSIGN_OR_RETURN(const DeviceBuffer out, DeviceBuffer::Allocate(device, count * sizeof(float)));
  set.Product({.weights = {.values = operands.weights.at<void>(),
                           .scales = nullptr,
                           .format = WeightFormat::kBf16,
                           .n = size.n,
                           .k = size.k},
               .acts = operands.acts.at<Bf16>(),
               .out = out.at<float>(),
               .rows = rows,
               .out_stride = size.n},
              stream);
  std::vector<float> ours(count);
  std::vector<Bf16> theirs(count);
  stream.CopyToHost(ours.data(), out.address(), count * sizeof(float));
  stream.CopyToHost(theirs.data(), operands.out.address(), count * sizeof(Bf16));
  stream.Synchronize();
  double difference = 0, largest = 0;
  for (size_t i = 0; i < count; ++i) {
    const double apart = std::fabs(double{ours[i]} - kernels::Bf16ToFloat(theirs[i]));
    // Not a number is never less.
    difference = apart <= difference ? difference : apart;
    largest = std::max(largest, std::fabs(double{ours[i]}));
  }
  return difference / largest;
}

}  // namespace

std::vector<double> SecondsOf(int rounds, const std::function<void()>& call) {
  call();
  std::vector<double> seconds;
  for (int i = 0; i < rounds; ++i) {
    const TimeNs begin = MonotonicClock().Now();
    call();
    // A clock may stand still for a call that takes no time.
    seconds.push_back(static_cast<double>(std::max<TimeNs>(MonotonicClock().Now() - begin, 1)) / kNsPerSecond);
  }
  return seconds;
}

absl::Status FillRandomly(const Device& device, CUdeviceptr to, size_t bytes, float least) {
  BATON_ASSIGN_OR_RETURN(const CUfunction kernel, device.Kernel("bench_fill", 0));
  BATON_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(device));
  const uint64_t words = bytes / kWordBytes;
  stream.Launch(
      kernel, GridFor(device, words),
      BenchFillParams{.to = std::bit_cast<void*>(to), .words = words, .base = kernels::FloatToBf16(least), .seed = 1});
  stream.Synchronize();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<bench::Figure>> MeasureMemory(const Device& device, const BenchShape& shape) {
  const size_t bytes = shape.memory_bytes;
  BATON_ASSIGN_OR_RETURN(const DeviceBuffer from, DeviceBuffer::Allocate(device, bytes));
  BATON_ASSIGN_OR_RETURN(const DeviceBuffer to, DeviceBuffer::Allocate(device, bytes));
  BATON_RETURN_IF_ERROR(FillRandomly(device, from.address(), bytes, 1.0f));
  BATON_ASSIGN_OR_RETURN(const CUfunction kernel, device.Kernel("bench_read", 0));
  BATON_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(device));
  const BenchReadParams read{.from = from.at<void>(), .words = bytes / kWordBytes, .out = to.at<uint32_t>()};
  std::vector<bench::Figure> figures;
  figures.push_back(MemoryFigure("read", bytes, bytes, SecondsOf(shape.rounds, [&] {
                                   for (int i = 0; i < kLaunchesPerRound; ++i) {
                                     stream.Launch(kernel, GridFor(device, read.words), read);
                                   }
                                   stream.Synchronize();
                                 })));
  figures.push_back(
      MemoryFigure("copy", bytes, 2 * bytes, SecondsOf(shape.rounds, [&] {
                     for (int i = 0; i < kLaunchesPerRound; ++i) {
                       device.Require(device.api().copy_on_device_async(to.address(), from.address(), bytes, nullptr),
                                      "cuMemcpyDtoDAsync");
                     }
                     device.Require(device.api().stream_synchronize(nullptr), "cuStreamSynchronize");
                   })));
  return figures;
}

absl::StatusOr<CublasLtFigures> MeasureCublasLt(const CublasLtApi& api, const Device& device, const BenchShape& shape) {
  CublasLtFigures measured;
  ProductSize size{.rows = shape.prompts.back(), .n = 2 * shape.model.ffn, .k = shape.model.hidden};
  BATON_ASSIGN_OR_RETURN(const Operands operands, MakeOperands(device, size));
  for (const int rows : shape.prompts) {
    size.rows = rows;
    BATON_ASSIGN_OR_RETURN(bench::Figure figure, MeasureProduct(api, device, size, shape.rounds, operands));
    measured.figures.push_back(std::move(figure));
  }
  BATON_ASSIGN_OR_RETURN(measured.largest_difference, LargestDifference(device, size, operands));
  return measured;
}

}  // namespace baton::engine::cuda
