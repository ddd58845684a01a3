#include "tests/cuda/driver_under_test.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "common/check.h"
#include "engine/cuda/kernels/images.h"
#include "tests/ptx/interpreted_driver.h"

namespace baton::engine::cuda {

bool RunsOnGpu() {
  const char* const device = std::getenv("BATON_TEST_CUDA");
  return device != nullptr && std::string_view(device) == "gpu";
}

const DriverApi& DriverUnderTest() {
  if (!RunsOnGpu()) return ptx::InterpretedDriver();
  static const absl::StatusOr<const DriverApi*>& driver = *new absl::StatusOr<const DriverApi*>(LoadDriverApi());
  BATON_CHECK(driver.ok()) << driver.status();
  return **driver;
}

const void* KernelsUnderTest() {
  if (RunsOnGpu()) return KernelsImage();
  static const std::string& text = *[] {
    std::stringstream read;
    read << std::ifstream(BATON_CUDA_KERNELS_PTX).rdbuf();
    return new std::string(read.str());
  }();
  return text.c_str();
}

}  // namespace baton::engine::cuda
