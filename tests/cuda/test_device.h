// The device that tests of the CUDA engine use.
#ifndef BATON_TESTS_CUDA_TEST_DEVICE_H_
#define BATON_TESTS_CUDA_TEST_DEVICE_H_

#include <memory>

#include "common/check.h"
#include "engine/cuda/device.h"
#include "tests/cuda/driver_under_test.h"

namespace baton::engine::cuda {

// One for the process, so that the kernels are read once.
inline std::shared_ptr<const Device> TestDevice() {
  static const std::shared_ptr<const Device>& device = *[] {
    const void* const images[] = {KernelsUnderTest()};
    BATON_CHECK(DriverUnderTest().init(0) == CUDA_SUCCESS);
    auto opened = Device::Open(DriverUnderTest(), 0, images);
    BATON_CHECK(opened.ok()) << opened.status();
    return new std::shared_ptr<const Device>(*std::move(opened));
  }();
  return device;
}

}  // namespace baton::engine::cuda

#endif  // BATON_TESTS_CUDA_TEST_DEVICE_H_
