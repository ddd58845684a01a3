// cuda_bench [--shape llama-8b|smollm2-135m|tiny] [--quick] [--device N]: how fast the engine computes on a CUDA device, beside what
// the device's memory and cuBLASLt do in the same run. The result is one object of JSON on standard output; standard
// error has a line for each figure as it comes. What cannot be measured is left out and named in "left_out". It ends
// with code 1 where there is no device or where cuBLASLt and the engine's kernel disagree, and with 2 for a flag that
// it does not know.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/clock.h"
#include "common/status.h"
#include "engine/cuda/driver_api.h"
#include "engine/cuda/kernels/images.h"
#include "nlohmann/json.hpp"
#include "tests/cuda/bench/bench_images.h"
#include "tests/cuda/bench/bench_shape.h"
#include "tests/cuda/bench/cublaslt_api.h"
#include "tests/cuda/bench/model_bench.h"
#include "tests/cuda/bench/yardsticks.h"

namespace baton::engine::cuda {
namespace {

using nlohmann::ordered_json;

constexpr char kUsage[] = "usage: cuda_bench [--shape llama-8b|smollm2-135m|tiny] [--quick] [--device N]";
// What is not begun by then is left out, so that a slow device does not hold up what comes after the benchmark.
constexpr int64_t kMostSeconds = 150;
// Rounding to bf16, and sums in another order.
constexpr double kMostDifference = 0.01;

struct BenchFlags {
  std::string_view shape = "llama-8b";
  bool quick = false;
  int device = 0;
};

std::optional<BenchFlags> ParseFlags(const std::vector<std::string_view>& args) {
  BenchFlags flags;
  for (size_t i = 0; i < args.size(); ++i) {
    const bool has_value = i + 1 < args.size();
    if (args[i] == "--quick") {
      flags.quick = true;
    } else if (args[i] == "--shape" && has_value) {
      flags.shape = args[++i];
    } else if (args[i] != "--device" || !has_value || !absl::SimpleAtoi(ToAbsl(args[++i]), &flags.device)) {
      return std::nullopt;
    }
  }
  return flags;
}

class CudaBench {
 public:
  CudaBench(BenchShape shape, std::shared_ptr<const Device> device)
      : shape_(std::move(shape)), device_(std::move(device)) {}

  absl::Status Run() {
    BATON_ASSIGN_OR_RETURN(const std::vector<bench::Figure> memory, MeasureMemory(*device_, shape_));
    for (const bench::Figure& figure : memory) {
      Add(figure);
      bandwidth_ = std::max(bandwidth_, figure.value);
    }
    BATON_RETURN_IF_ERROR(RunCublasLt());
    for (const BenchWeights weights : shape_.weights) RunModel(weights);
    return absl::OkStatus();
  }

  ordered_json Report() const {
    int driver = 0;
    static_cast<void>(device_->api().driver_version(&driver));
    ordered_json report;
    report["device"] = {{"name", device_->name()},
                        {"capability", device_->capability()},
                        {"multiprocessors", device_->multiprocessors()},
                        {"driver", driver}};
    const RandomShape& model = shape_.model;
    report["model"] = {{"shape", shape_.name},      {"hidden", model.hidden},     {"layers", model.layers},
                       {"heads", model.heads},      {"kv_heads", model.kv_heads}, {"head_dim", model.head_dim},
                       {"feed_forward", model.ffn}, {"vocabulary", model.vocab}};
    if (!cublaslt_.is_null()) report["cublaslt"] = cublaslt_;
    report["figures"] = figures_;
    report["left_out"] = left_out_;
    report["seconds"] = Elapsed();
    return report;
  }

 private:
  double Elapsed() const {
    return static_cast<double>(MonotonicClock().Now() - begin_) / static_cast<double>(kNsPerSecond);
  }

  void Add(const bench::Figure& figure) {
    figures_.push_back(bench::FigureJson(figure));
    std::fputs(bench::FigureLine(figure).c_str(), stderr);
  }

  void LeaveOut(const std::string& what, const std::string& why) {
    left_out_.push_back(absl::StrCat(what, ": ", why));
    std::fputs(absl::StrCat("  left out: ", what, ": ", why, "\n").c_str(), stderr);
  }

  absl::Status RunCublasLt() {
    const absl::StatusOr<CublasLtApi> api = LoadCublasLt();
    if (!api.ok()) {
      LeaveOut("cublaslt", std::string(api.status().message()));
      return absl::OkStatus();
    }
    const absl::StatusOr<CublasLtFigures> measured = MeasureCublasLt(*api, *device_, shape_);
    if (!measured.ok()) {
      LeaveOut("cublaslt", std::string(measured.status().message()));
      return absl::OkStatus();
    }
    cublaslt_ = {{"library", api->library},
                 {"version", api->version},
                 {"stand_in", api->is_stand_in},
                 {"largest_difference", measured->largest_difference}};
    for (const bench::Figure& figure : measured->figures) {
      Add(figure);
      peak_ = std::max(peak_, figure.value);
    }
    if (measured->largest_difference <= kMostDifference) return absl::OkStatus();
    return absl::InternalError(
        absl::StrFormat("the products of cuBLASLt and of the engine's kernel differ by %.3g of their largest value",
                        measured->largest_difference));
  }

  void RunModel(BenchWeights weights) {
    const std::string name(BenchWeightsName(weights));
    if (Elapsed() > kMostSeconds) return LeaveOut(name, "the time is up");
    absl::StatusOr<ModelBench> model = ModelBench::Load(shape_, weights, device_);
    if (!model.ok()) return LeaveOut(name, std::string(model.status().message()));
    // Weights have no part in it.
    if (weights == shape_.weights.front()) Add(model->Digest(bandwidth_));
    for (const int batch : shape_.batches) {
      Take(absl::StrCat(name, ", decode, batch ", batch), [&] { return model->Decode(batch, bandwidth_); });
    }
    for (const int tokens : shape_.prompts) {
      Take(absl::StrCat(name, ", prefill, ", tokens, " tokens"), [&] { return model->Prefill(tokens, peak_); });
    }
  }

  template <typename Measure>
  void Take(const std::string& what, Measure measure) {
    if (Elapsed() > kMostSeconds) return LeaveOut(what, "the time is up");
    const absl::StatusOr<bench::Figure> figure = measure();
    if (!figure.ok()) return LeaveOut(what, std::string(figure.status().message()));
    Add(*figure);
  }

  const TimeNs begin_ = MonotonicClock().Now();
  const BenchShape shape_;
  const std::shared_ptr<const Device> device_;
  // GB/s of the memory, and TFLOP/s of cuBLASLt where it is there.
  double bandwidth_ = 0;
  double peak_ = 0;
  ordered_json cublaslt_;
  ordered_json figures_ = ordered_json::array();
  ordered_json left_out_ = ordered_json::array();
};

absl::Status RunBench(const BenchShape& shape, int ordinal) {
  BATON_ASSIGN_OR_RETURN(const DriverApi* const api, LoadDriverApi());
  const void* const images[] = {KernelsImage(), baton_cuda_bench_kernels};
  BATON_ASSIGN_OR_RETURN(std::shared_ptr<const Device> device, Device::Open(*api, ordinal, images));
  CudaBench bench(shape, std::move(device));
  const absl::Status status = bench.Run();
  std::puts(bench.Report().dump().c_str());
  return status;
}

int RunCommand(const std::vector<std::string_view>& args) {
  const std::optional<BenchFlags> flags = ParseFlags(args);
  const std::optional<BenchShape> shape =
      flags.has_value() ? BenchShapeNamed(flags->shape, flags->quick) : std::nullopt;
  if (!shape.has_value()) {
    std::fprintf(stderr, "%s\n", kUsage);
    return 2;
  }
  const absl::Status status = RunBench(*shape, flags->device);
  if (status.ok()) return EXIT_SUCCESS;
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return EXIT_FAILURE;
}

}  // namespace
}  // namespace baton::engine::cuda

int main(int argc, char** argv) { return baton::engine::cuda::RunCommand({argv + 1, argv + argc}); }
