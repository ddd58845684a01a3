#include "engine/cuda/kernels/testing/kernel_device.h"
#include "tests/ptx/interpreted_driver.h"

namespace baton::engine::cuda {

const DriverApi& KernelTestDriver() {
  ptx::Options options;
  options.check_global_races = true;
  ptx::SetOptions(options);
  return ptx::InterpretedDriver();
}

std::string TakeKernelFindings() {
  std::string text;
  for (const ptx::Finding& finding : ptx::TakeFindings()) text += ptx::ToString(finding) + "\n";
  return text + ptx::ModuleError();
}

}  // namespace baton::engine::cuda
