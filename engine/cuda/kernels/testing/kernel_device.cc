#include "engine/cuda/kernels/testing/kernel_device.h"

namespace baton::engine::cuda {

KernelDevice& KernelDevice::Get() {
  static KernelDevice& device = *new KernelDevice(KernelTestDriver());
  return device;
}

KernelDevice::KernelDevice(const DriverApi& api) : api_(api) {
  Check(api_.init(0), "cuInit");
  CUdevice device = 0;
  Check(api_.device_get(&device, 0), "cuDeviceGet");
  CUcontext context = nullptr;
  Check(api_.primary_context_retain(&context, device), "cuDevicePrimaryCtxRetain");
  Check(api_.context_set_current(context), "cuCtxSetCurrent");
  Check(api_.module_load_data(&module_, KernelTestImage()), "cuModuleLoadData");
  Check(api_.stream_create(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
}

void KernelDevice::Check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const char* text = nullptr;
  if (api_.error_string(result, &text) != CUDA_SUCCESS || text == nullptr) text = "an unknown error";
  ADD_FAILURE() << what << ": " << text << "\n" << TakeKernelFindings();
}

CUdeviceptr KernelDevice::Allocate(size_t bytes) {
  CUdeviceptr address = 0;
  Check(api_.memory_alloc(&address, bytes), "cuMemAlloc");
  return address;
}

void KernelDevice::Free(CUdeviceptr address) { Check(api_.memory_free(address), "cuMemFree"); }

void KernelDevice::Write(CUdeviceptr to, const void* from, size_t bytes) {
  Check(api_.copy_to_device_async(to, from, bytes, stream_), "cuMemcpyHtoDAsync");
  Check(api_.stream_synchronize(stream_), "cuStreamSynchronize");
}

void KernelDevice::Read(void* to, CUdeviceptr from, size_t bytes) {
  Check(api_.copy_to_host_async(to, from, bytes, stream_), "cuMemcpyDtoHAsync");
  Check(api_.stream_synchronize(stream_), "cuStreamSynchronize");
}

void KernelDevice::RunWith(const char* kernel, void* params, const Launch& launch) {
  CUfunction function = nullptr;
  Check(api_.module_function(&function, module_, kernel), kernel);
  if (launch.shared_bytes > kDefaultSharedBytes) {
    Check(api_.function_set_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                      static_cast<int>(launch.shared_bytes)),
          kernel);
  }
  void* arguments[] = {params};
  Check(api_.launch_kernel(function, launch.grid_x, launch.grid_y, launch.grid_z, launch.threads, 1, 1,
                           launch.shared_bytes, stream_, arguments, nullptr),
        kernel);
  Check(api_.stream_synchronize(stream_), kernel);
}

}  // namespace baton::engine::cuda
