// What tests of the CUDA engine run on: the interpreter of PTX with what nvcc made of the kernels for compute_80, or
// this machine's GPU with the plug-in's image, where the environment says BATON_TEST_CUDA=gpu (scripts/gpu_check.sh).
#ifndef BATON_TESTS_CUDA_DRIVER_UNDER_TEST_H_
#define BATON_TESTS_CUDA_DRIVER_UNDER_TEST_H_

#include "engine/cuda/driver_api.h"

namespace baton::engine::cuda {

bool RunsOnGpu();

// Ends the process where a GPU is asked for and no driver answers.
const DriverApi& DriverUnderTest();

// The kernels, for that driver's module_load_data. They live as long as the process.
const void* KernelsUnderTest();

}  // namespace baton::engine::cuda

#endif  // BATON_TESTS_CUDA_DRIVER_UNDER_TEST_H_
