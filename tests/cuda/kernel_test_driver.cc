#include "engine/cuda/kernels/testing/kernel_device.h"
#include "tests/ptx/interpreted_driver.h"

namespace baton::engine::cuda {

const DriverApi& KernelTestDriver() { return ptx::InterpretedDriver(); }

}  // namespace baton::engine::cuda
