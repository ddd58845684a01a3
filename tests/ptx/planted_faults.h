// Failures of the device that a test plants in a process while it runs. A file with the process's id as its name in a
// folder that both know holds one word; from its appearance on, the next launch or wait meets
//
//   illegal_address      CUDA_ERROR_ILLEGAL_ADDRESS, as after a kernel that left its memory
//   ecc_uncorrectable    CUDA_ERROR_ECC_UNCORRECTABLE
//   hang                 a launch that never ends: it and all that come later are accepted, and whoever waits for them
//                        waits for ever
//
// As on hardware a launch answers that all is well, and the error comes with the next call and with every later one.
// The file is moved to its place once it is written. Another word is CUDA_ERROR_UNKNOWN.
#ifndef BATON_TESTS_PTX_PLANTED_FAULTS_H_
#define BATON_TESTS_PTX_PLANTED_FAULTS_H_

#include <string>

#include "engine/cuda/driver_api.h"

namespace baton::ptx {

// Puts the faults of `folder` in front of the functions of `api`, a table of InterpretedDriver's. Once in a process,
// but for tests, where the last folder counts and a hang outlives no ResetDriver.
void AddPlantedFaults(const std::string& folder, engine::cuda::DriverApi& api);

}  // namespace baton::ptx

#endif  // BATON_TESTS_PTX_PLANTED_FAULTS_H_
