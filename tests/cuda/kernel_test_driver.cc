#include "engine/cuda/kernels/testing/kernel_device.h"
#include "tests/cuda/driver_under_test.h"
#include "tests/ptx/interpreted_driver.h"

namespace baton::engine::cuda {

const DriverApi& KernelTestDriver() {
  ptx::Options options;
  options.check_global_races = true;
  ptx::SetOptions(options);
  return DriverUnderTest();
}

const void* KernelTestImage() { return KernelsUnderTest(); }

std::string TakeKernelFindings() {
  std::string text;
  for (const ptx::Finding& finding : ptx::TakeFindings()) text += ptx::ToString(finding) + "\n";
  return text + ptx::ModuleError();
}

}  // namespace baton::engine::cuda
