#include "tests/ptx/emulated_device.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/ptx/decoder.h"
#include "tests/ptx/driver_functions.h"
#include "tests/ptx/host_function.h"
#include "tests/ptx/text.h"

namespace baton::ptx {

EmulatedDevice& EmulatedDevice::Get() {
  static auto* const kDevice = new EmulatedDevice;
  return *kDevice;
}

void EmulatedDevice::Reset() {
  initialized = failed = false;
  broken = CUDA_SUCCESS;
  retained = 0;
  modules.clear();
  functions.clear();
  streams.clear();
  events.clear();
  graphs.clear();
  graph_execs.clear();
  host.clear();
  opened.clear();
  memory = DeviceMemory();
  findings.Take();
  options = Options();
  module_error.clear();
  instructions = 0;
  by_kernel.clear();
}

CUresult EmulatedDevice::Ready() const {
  if (IsInHostFunction()) return CUDA_ERROR_NOT_PERMITTED;
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (retained == 0 || CurrentContext() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (broken != CUDA_SUCCESS) return broken;
  return failed ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
}

bool EmulatedDevice::Capturing() const {
  return std::any_of(streams.begin(), streams.end(), [](const auto& one) { return one.second->capture != nullptr; });
}

CUresult EmulatedDevice::ForbiddenInCapture() {
  for (auto& [handle, stream] : streams) {
    if (stream->capture == nullptr || stream->capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
    stream->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return CUDA_SUCCESS;
}

CUresult EmulatedDevice::FindStream(CUstream handle, Stream** stream) {
  *stream = nullptr;
  // The default stream.
  if (handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) return CUDA_SUCCESS;
  const auto found = streams.find(handle);
  if (found == streams.end()) return CUDA_ERROR_INVALID_HANDLE;
  *stream = found->second.get();
  return CUDA_SUCCESS;
}

CUresult EmulatedDevice::Submit(CUstream handle, GraphNode node) {
  Stream* stream = nullptr;
  if (const CUresult result = FindStream(handle, &stream); result != CUDA_SUCCESS) return result;
  if (stream == nullptr) return Capturing() ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : node();
  if (stream->capture == nullptr) {
    if (!stream->is_busy()) return node();
    stream->thread->Put([this, node = std::move(node)] {
      const std::lock_guard lock(mutex);
      if (const CUresult result = node(); result != CUDA_SUCCESS && broken == CUDA_SUCCESS) broken = result;
    });
    return CUDA_SUCCESS;
  }
  if (stream->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  stream->capture->nodes.push_back(std::move(node));
  return CUDA_SUCCESS;
}

Allocation* EmulatedDevice::Range(CUdeviceptr address, size_t bytes) {
  Allocation* allocation = memory.Find(address);
  return allocation != nullptr && allocation->Contains(address, bytes) ? allocation : nullptr;
}

absl::Status EmulatedDevice::PlaceVariables(LoadedModule& loaded) {
  std::map<std::string, Allocation*> placed;
  auto is_placed = [](const Variable* one) { return one->space == Space::kGlobal || one->space == Space::kConst; };
  for (const Variable* variable : loaded.module.globals) {
    if (!is_placed(variable)) continue;
    Allocation* allocation = memory.Allocate(variable->size);
    if (allocation == nullptr) return absl::ResourceExhaustedError("no memory for the variables of a module");
    allocation->of_module = true;
    allocation->read_only = variable->space == Space::kConst;
    // Without an initializer it is zero.
    std::memset(allocation->written.get(), kWritten, variable->size);
    if (!variable->bytes.empty()) std::memcpy(allocation->data.get(), variable->bytes.data(), variable->size);
    placed[variable->name] = allocation;
    loaded.variables.push_back(allocation);
  }
  for (const Variable* variable : loaded.module.globals) {
    for (const Variable::Address& address : variable->addresses) {
      const auto target = placed.find(address.name);
      if (target == placed.end()) {
        return absl::InvalidArgumentError(Text("PTX line ", variable->line, ": unknown variable ", address.name));
      }
      const uint64_t value = target->second->base + static_cast<uint64_t>(address.addend);
      std::memcpy(placed[variable->name]->data.get() + address.offset, &value, sizeof(value));
    }
  }
  return absl::OkStatus();
}

absl::Status EmulatedDevice::Load(const char* text, std::unique_ptr<LoadedModule>* result) {
  auto module = ParseModule(text);
  if (!module.ok()) return module.status();
  auto loaded = std::make_unique<LoadedModule>();
  loaded->module = *std::move(module);
  if (absl::Status status = PlaceVariables(*loaded); !status.ok()) return status;
  Addresses addresses;
  size_t next = 0;
  for (const Variable* variable : loaded->module.globals) {
    if (variable->space != Space::kShared) addresses[variable] = loaded->variables[next++]->base;
  }
  const auto lines = std::make_shared<const std::vector<std::string>>(loaded->module.lines);
  for (const auto& function : loaded->module.functions) {
    if (!function->entry) continue;
    auto program = DecodeKernel(loaded->module, *function, addresses, lines);
    if (!program.ok()) return program.status();
    LoadedFunction& entry = loaded->functions[function->name];
    entry.module = loaded.get();
    entry.program = *std::move(program);
    const uint32_t used = std::min(entry.program.static_shared, kSharedDefault);
    entry.most_dynamic_shared = kSharedDefault - used;
  }
  *result = std::move(loaded);
  return absl::OkStatus();
}

}  // namespace baton::ptx
