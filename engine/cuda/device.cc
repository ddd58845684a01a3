#include "engine/cuda/device.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/log.h"
#include "common/status.h"

namespace baton::engine::cuda {
namespace {

// The least capability for which kernels are compiled to wait in AwaitKernelsBefore (kernels/device.cuh).
constexpr int kWaitingCapability = 90;

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> Device::Open(const DriverApi& api, int ordinal,
                                                     absl::Span<const void* const> images, bool overlaps) {
  int count = 0;
  BATON_RETURN_IF_ERROR(DriverStatus(api, api.device_count(&count), "cuDeviceGetCount"));
  if (ordinal < 0 || ordinal >= count) {
    return absl::NotFoundError(absl::StrFormat("there is no CUDA device %d: the driver sees %d", ordinal, count));
  }
  std::unique_ptr<Device> device(new Device(api, ordinal, overlaps));
  BATON_RETURN_IF_ERROR(device->Start());
  for (const void* const image : images) BATON_RETURN_IF_ERROR(device->LoadImage(image));
  return device;
}

absl::StatusOr<int> Device::Attribute(CUdevice_attribute attribute) const {
  int value = 0;
  BATON_RETURN_IF_ERROR(Check(api_.device_attribute(&value, attribute, device_), "cuDeviceGetAttribute"));
  return value;
}

absl::Status Device::Start() {
  BATON_RETURN_IF_ERROR(Check(api_.device_get(&device_, ordinal_), "cuDeviceGet"));
  char name[256] = {};
  BATON_RETURN_IF_ERROR(Check(api_.device_name(name, sizeof(name) - 1, device_), "cuDeviceGetName"));
  name_ = name;
  BATON_ASSIGN_OR_RETURN(const int major, Attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
  BATON_ASSIGN_OR_RETURN(const int minor, Attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  capability_ = 10 * major + minor;
  if (capability_ < kWaitingCapability) overlaps_ = false;
  BATON_ASSIGN_OR_RETURN(multiprocessors_, Attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  BATON_RETURN_IF_ERROR(Check(api_.primary_context_retain(&context_, device_), "cuDevicePrimaryCtxRetain"));
  return Check(api_.context_set_current(context_), "cuCtxSetCurrent");
}

absl::Status Device::LoadImage(const void* image) {
  CUmodule module = nullptr;
  const CUresult result = api_.module_load_data(&module, image);
  if (result == CUDA_SUCCESS) {
    modules_.push_back(module);
    return absl::OkStatus();
  }
  absl::Status status = Check(result, "cuModuleLoadData");
  if (result != CUDA_ERROR_NO_BINARY_FOR_GPU && result != CUDA_ERROR_UNSUPPORTED_PTX_VERSION &&
      result != CUDA_ERROR_INVALID_PTX && result != CUDA_ERROR_INVALID_IMAGE) {
    return status;
  }
  return absl::FailedPreconditionError(absl::StrFormat("no kernel image for CUDA device %d (%s, sm_%d): %s", ordinal_,
                                                       name_, capability_, status.message()));
}

Device::~Device() {
  if (context_ == nullptr) return;
  TryMakeCurrent();
  for (const CUmodule module : modules_) static_cast<void>(api_.module_unload(module));
  static_cast<void>(api_.primary_context_release(device_));
}

absl::StatusOr<CUfunction> Device::Kernel(const char* name, int shared_bytes) const {
  MakeCurrent();
  CUfunction function = nullptr;
  CUresult result = CUDA_ERROR_NOT_FOUND;
  for (size_t i = 0; i < modules_.size() && result == CUDA_ERROR_NOT_FOUND; ++i) {
    result = api_.module_function(&function, modules_[i], name);
  }
  if (result != CUDA_SUCCESS) {
    return absl::NotFoundError(absl::StrCat("kernel ", name, ": ", Check(result, "cuModuleGetFunction").message()));
  }
  if (overlaps_) {
    // What __CUDA_ARCH__ was, also of a kernel that the driver compiled itself from PTX for an older device.
    int compiled_for = 0;
    BATON_RETURN_IF_ERROR(Check(api_.function_attribute(&compiled_for, CU_FUNC_ATTRIBUTE_PTX_VERSION, function), name));
    if (compiled_for < kWaitingCapability) overlaps_ = false;
  }
  // Up to this much needs no leave.
  constexpr int kPlainBytes = 48 << 10;
  if (shared_bytes <= kPlainBytes) return function;
  const absl::Status status =
      Check(api_.function_set_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes), name);
  if (!status.ok()) return status;
  return function;
}

absl::StatusOr<DeviceMemory> Device::Memory() const {
  MakeCurrent();
  size_t free = 0;
  size_t total = 0;
  BATON_RETURN_IF_ERROR(Check(api_.memory_info(&free, &total), "cuMemGetInfo"));
  const uint64_t allocated = allocated_.load();
  const uint64_t in_use = total - std::min(free, total);
  const uint64_t beyond = in_use - std::min(allocated, in_use);
  return DeviceMemory{.total = total, .free = free, .own = allocated + std::min(beyond, kMostDriverBytes)};
}

void Device::MakeCurrent() const { Require(api_.context_set_current(context_), "cuCtxSetCurrent"); }

void Device::Require(CUresult result, const char* what) const {
  if (result == CUDA_SUCCESS) return;
  const absl::Status status = Check(result, what);
  spdlog::error("CUDA device {} ({}) has failed, so this process ends: {}. {}", ordinal_, name_,
                ToStd(status.message()), DeviceAdvice(result));
  // No check of our own, which would say the same in a second line.
  std::abort();
}

absl::StatusOr<DeviceBuffer> DeviceBuffer::Allocate(const Device& device, size_t bytes) {
  DeviceBuffer buffer;
  if (bytes == 0) return buffer;
  device.MakeCurrent();
  const absl::Status status = device.Check(device.api().memory_alloc(&buffer.address_, bytes), "cuMemAlloc");
  if (!status.ok()) {
    return absl::Status(status.code(), absl::StrFormat("%d bytes of device memory: %s", bytes, status.message()));
  }
  buffer.device_ = &device;
  buffer.bytes_ = bytes;
  device.allocated_ += bytes;
  return buffer;
}

DeviceBuffer::~DeviceBuffer() {
  if (device_ == nullptr) return;
  device_->allocated_ -= bytes_;
  device_->TryMakeCurrent();
  static_cast<void>(device_->api().memory_free(address_));
}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

absl::StatusOr<PinnedBuffer> PinnedBuffer::Allocate(const Device& device, size_t bytes) {
  PinnedBuffer buffer;
  if (bytes == 0) return buffer;
  device.MakeCurrent();
  const absl::Status status =
      device.Check(device.api().host_alloc(&buffer.data_, bytes, CU_MEMHOSTALLOC_PORTABLE), "cuMemHostAlloc");
  if (!status.ok()) {
    return absl::Status(status.code(), absl::StrFormat("%d bytes of pinned memory: %s", bytes, status.message()));
  }
  buffer.device_ = &device;
  buffer.bytes_ = bytes;
  return buffer;
}

PinnedBuffer::~PinnedBuffer() {
  if (device_ == nullptr) return;
  device_->TryMakeCurrent();
  static_cast<void>(device_->api().host_free(data_));
}

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Graph::~Graph() {
  if (device_ == nullptr) return;
  device_->TryMakeCurrent();
  static_cast<void>(device_->api().graph_exec_destroy(exec_));
}

Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(exec_, other.exec_);
  return *this;
}

absl::StatusOr<Event> Event::Create(const Device& device) {
  Event event;
  device.MakeCurrent();
  BATON_RETURN_IF_ERROR(
      device.Check(device.api().event_create(&event.event_, CU_EVENT_DISABLE_TIMING), "cuEventCreate"));
  event.device_ = &device;
  return event;
}

Event::~Event() {
  if (device_ == nullptr) return;
  device_->TryMakeCurrent();
  static_cast<void>(device_->api().event_destroy(event_));
}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(event_, other.event_);
  return *this;
}

void Event::Record(const Stream& stream) const {
  device_->MakeCurrent();
  device_->Require(device_->api().event_record(event_, stream.stream_), "cuEventRecord");
}

void Event::Synchronize() const {
  device_->MakeCurrent();
  device_->Require(device_->api().event_synchronize(event_), "cuEventSynchronize");
}

absl::StatusOr<Stream> Stream::Create(const Device& device) {
  device.MakeCurrent();
  CUstream stream = nullptr;
  BATON_RETURN_IF_ERROR(device.Check(device.api().stream_create(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
  return Stream(device, stream);
}

Stream::~Stream() {
  if (device_ == nullptr) return;
  device_->TryMakeCurrent();
  static_cast<void>(device_->api().stream_synchronize(stream_));
  static_cast<void>(device_->api().stream_destroy(stream_));
}

void Stream::CopyToDevice(CUdeviceptr to, const void* from, size_t bytes) const {
  device_->MakeCurrent();
  device_->Require(device_->api().copy_to_device_async(to, from, bytes, stream_), "cuMemcpyHtoDAsync");
}

void Stream::CopyToHost(void* to, CUdeviceptr from, size_t bytes) const {
  device_->MakeCurrent();
  device_->Require(device_->api().copy_to_host_async(to, from, bytes, stream_), "cuMemcpyDtoHAsync");
}

void Stream::SetBytes(CUdeviceptr to, uint8_t value, size_t bytes) const {
  device_->MakeCurrent();
  device_->Require(device_->api().set_bytes_async(to, value, bytes, stream_), "cuMemsetD8Async");
}

void Stream::LaunchKernel(CUfunction kernel, const LaunchShape& shape, void** arguments) const {
  const DriverApi& api = device_->api();
  if (!device_->overlaps()) {
    return device_->Require(api.launch_kernel(kernel, shape.x, shape.y, shape.z, shape.threads, 1, 1,
                                              shape.shared_bytes, stream_, arguments, nullptr),
                            "cuLaunchKernel");
  }
  CUlaunchAttribute overlap{};
  overlap.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  overlap.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config{};
  config.gridDimX = shape.x;
  config.gridDimY = shape.y;
  config.gridDimZ = shape.z;
  config.blockDimX = shape.threads;
  config.blockDimY = 1;
  config.blockDimZ = 1;
  config.sharedMemBytes = shape.shared_bytes;
  config.hStream = stream_;
  config.attrs = &overlap;
  config.numAttrs = 1;
  device_->Require(api.launch_kernel_ex(&config, kernel, arguments, nullptr), "cuLaunchKernelEx");
}

void Stream::Synchronize() const {
  device_->MakeCurrent();
  device_->Require(device_->api().stream_synchronize(stream_), "cuStreamSynchronize");
}

void Stream::BeginCapture() const {
  device_->MakeCurrent();
  device_->Require(device_->api().stream_begin_capture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                   "cuStreamBeginCapture");
}

Graph Stream::EndCapture() const {
  const DriverApi& api = device_->api();
  CUgraph captured = nullptr;
  device_->Require(api.stream_end_capture(stream_, &captured), "cuStreamEndCapture");
  Graph graph;
  device_->Require(api.graph_instantiate(&graph.exec_, captured, 0), "cuGraphInstantiate");
  graph.device_ = device_;
  device_->Require(api.graph_destroy(captured), "cuGraphDestroy");
  return graph;
}

void Stream::Launch(const Graph& graph) const {
  device_->MakeCurrent();
  device_->Require(device_->api().graph_launch(graph.exec_, stream_), "cuGraphLaunch");
}

}  // namespace baton::engine::cuda
