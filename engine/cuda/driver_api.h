// The functions of the CUDA driver that the engine calls, as a table: the program never links against libcuda, so the
// same binary starts on machines without it. LoadDriverApi fills the table from the machine's driver; tests fill it
// with an interpreter of PTX (tests/ptx). Every function means what NVIDIA's "CUDA Driver API" says, version 13.
#ifndef BATON_ENGINE_CUDA_DRIVER_API_H_
#define BATON_ENGINE_CUDA_DRIVER_API_H_

#include <cuda.h>

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton::engine::cuda {

// X(member, function of cuda.h). cuda.h maps each name to the version of the function that its types belong to.
#define BATON_CUDA_DRIVER_FUNCTIONS(X)                  \
  X(init, cuInit)                                       \
  X(driver_version, cuDriverGetVersion)                 \
  X(error_name, cuGetErrorName)                         \
  X(error_string, cuGetErrorString)                     \
  X(device_count, cuDeviceGetCount)                     \
  X(device_get, cuDeviceGet)                            \
  X(device_name, cuDeviceGetName)                       \
  X(device_attribute, cuDeviceGetAttribute)             \
  X(primary_context_retain, cuDevicePrimaryCtxRetain)   \
  X(primary_context_release, cuDevicePrimaryCtxRelease) \
  X(context_set_current, cuCtxSetCurrent)               \
  X(memory_info, cuMemGetInfo)                          \
  X(module_load_data, cuModuleLoadData)                 \
  X(module_unload, cuModuleUnload)                      \
  X(module_function, cuModuleGetFunction)               \
  X(function_attribute, cuFuncGetAttribute)             \
  X(function_set_attribute, cuFuncSetAttribute)         \
  X(memory_alloc, cuMemAlloc)                           \
  X(memory_free, cuMemFree)                             \
  X(ipc_get_handle, cuIpcGetMemHandle)                  \
  X(ipc_open_handle, cuIpcOpenMemHandle)                \
  X(ipc_close_handle, cuIpcCloseMemHandle)              \
  X(host_alloc, cuMemHostAlloc)                         \
  X(host_free, cuMemFreeHost)                           \
  X(copy_to_device_async, cuMemcpyHtoDAsync)            \
  X(copy_to_host_async, cuMemcpyDtoHAsync)              \
  X(copy_on_device_async, cuMemcpyDtoDAsync)            \
  X(set_bytes_async, cuMemsetD8Async)                   \
  X(stream_create, cuStreamCreate)                      \
  X(stream_destroy, cuStreamDestroy)                    \
  X(stream_synchronize, cuStreamSynchronize)            \
  X(stream_wait_event, cuStreamWaitEvent)               \
  X(launch_host_function, cuLaunchHostFunc)             \
  X(stream_begin_capture, cuStreamBeginCapture)         \
  X(stream_end_capture, cuStreamEndCapture)             \
  X(graph_instantiate, cuGraphInstantiate)              \
  X(graph_launch, cuGraphLaunch)                        \
  X(graph_exec_destroy, cuGraphExecDestroy)             \
  X(graph_destroy, cuGraphDestroy)                      \
  X(event_create, cuEventCreate)                        \
  X(event_record, cuEventRecord)                        \
  X(event_synchronize, cuEventSynchronize)              \
  X(event_query, cuEventQuery)                          \
  X(event_destroy, cuEventDestroy)                      \
  X(launch_kernel, cuLaunchKernel)                      \
  X(launch_kernel_ex, cuLaunchKernelEx)

struct DriverApi {
#define BATON_CUDA_DRIVER_MEMBER(member, function) decltype(&::function) member = nullptr;
  BATON_CUDA_DRIVER_FUNCTIONS(BATON_CUDA_DRIVER_MEMBER)
#undef BATON_CUDA_DRIVER_MEMBER
};

// The machine's driver, loaded once and kept. UNAVAILABLE when there is none, when it lacks a function, or when it has
// no device; the message says which.
absl::StatusOr<const DriverApi*> LoadDriverApi();

// What a driver's answer means: OK for CUDA_SUCCESS, RESOURCE_EXHAUSTED when memory is short, else INTERNAL. `what`
// names the call.
absl::Status DriverStatus(const DriverApi& api, CUresult result, const char* what);

// What an operator may do about a device that has failed with this error: one or two sentences.
std::string_view DeviceAdvice(CUresult result);

}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_DRIVER_API_H_
