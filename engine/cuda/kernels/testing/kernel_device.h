// Runs the kernels of this folder on a device of a driver's table: the interpreter's, or a GPU's.
#ifndef BATON_ENGINE_CUDA_KERNELS_TESTING_KERNEL_DEVICE_H_
#define BATON_ENGINE_CUDA_KERNELS_TESTING_KERNEL_DEVICE_H_

#include <map>
#include <string>
#include <vector>

#include "engine/cuda/driver_api.h"
#include "engine/cuda/kernels/launch.h"
#include "engine/cuda/kernels/testing/reference.h"
#include "gtest/gtest.h"

namespace baton::engine::cuda {

// The driver that tests use and its module of kernels, which tests/cuda chooses.
const DriverApi& KernelTestDriver();
const void* KernelTestImage();
// What that driver found wrong with kernels since the last call, a line each. Afterwards the device works again.
std::string TakeKernelFindings();

// Every call that fails is a failure of the test, with the driver's words.
class KernelDevice {
 public:
  // One for the process, so that the module is loaded once.
  static KernelDevice& Get();

  CUdeviceptr Allocate(size_t bytes);
  void Free(CUdeviceptr address);
  void Write(CUdeviceptr to, const void* from, size_t bytes);
  void Read(void* to, CUdeviceptr from, size_t bytes);

  template <typename Params>
  void Run(const char* kernel, const Params& params, const Launch& launch) {
    Params copy = params;
    RunWith(kernel, &copy, launch);
  }

 private:
  explicit KernelDevice(const DriverApi& api);
  void RunWith(const char* kernel, void* params, const Launch& launch);
  void Check(CUresult result, const char* what);

  const DriverApi& api_;
  CUmodule module_ = nullptr;
  CUstream stream_ = nullptr;
};

// An array in the device's memory.
template <typename T>
class DeviceArray {
 public:
  // Not written yet: a kernel that reads it before it writes is caught.
  explicit DeviceArray(size_t size)
      : size_(size), address_(KernelDevice::Get().Allocate(std::max<size_t>(size, 1) * sizeof(T))) {}
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) { Set(values); }
  ~DeviceArray() { KernelDevice::Get().Free(address_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  void Set(const std::vector<T>& values) {
    ASSERT_EQ(values.size(), size_);
    if (size_ > 0) KernelDevice::Get().Write(address_, values.data(), size_ * sizeof(T));
  }
  std::vector<T> Values() const {
    std::vector<T> values(size_);
    if (size_ > 0) KernelDevice::Get().Read(values.data(), address_, size_ * sizeof(T));
    return values;
  }
  T* get() const { return reinterpret_cast<T*>(address_); }

 private:
  const size_t size_;
  const CUdeviceptr address_;
};

// A matrix in the device's memory.
class DeviceMatrix {
 public:
  explicit DeviceMatrix(const HostMatrix& matrix)
      : values_(matrix.values), scales_(matrix.scales), factors_(matrix.factors) {
    matrix_ = {.values = values_.get(),
               .scales = scales_.get(),
               .factors = matrix.factors.empty() ? nullptr : factors_.get(),
               .format = matrix.format,
               .n = matrix.n,
               .k = matrix.k,
               .factor = matrix.factor};
  }

  // Valid as long as this.
  const Matrix& get() const { return matrix_; }

 private:
  const DeviceArray<uint8_t> values_;
  const DeviceArray<uint32_t> scales_;
  const DeviceArray<uint16_t> factors_;
  Matrix matrix_;
};

}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_KERNELS_TESTING_KERNEL_DEVICE_H_
