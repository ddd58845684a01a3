// The device that tests of the CUDA engine use: the interpreter's, with the PTX that nvcc made of the kernels.
#ifndef BATON_TESTS_CUDA_TEST_DEVICE_H_
#define BATON_TESTS_CUDA_TEST_DEVICE_H_

#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "common/check.h"
#include "engine/cuda/device.h"
#include "tests/ptx/interpreted_driver.h"

namespace baton::engine::cuda {

// One for the process, so that the kernels are read once.
inline std::shared_ptr<const Device> TestDevice() {
  static const std::shared_ptr<const Device>& device = *[] {
    std::stringstream text;
    text << std::ifstream(BATON_CUDA_KERNELS_PTX).rdbuf();
    const std::string ptx = text.str();
    const void* const images[] = {ptx.c_str()};
    BATON_CHECK(ptx::InterpretedDriver().init(0) == CUDA_SUCCESS);
    auto opened = Device::Open(ptx::InterpretedDriver(), 0, images);
    BATON_CHECK(opened.ok()) << opened.status();
    return new std::shared_ptr<const Device>(*std::move(opened));
  }();
  return device;
}

}  // namespace baton::engine::cuda

#endif  // BATON_TESTS_CUDA_TEST_DEVICE_H_
