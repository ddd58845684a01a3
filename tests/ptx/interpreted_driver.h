// The CUDA driver as the engine calls it, over an emulated device: device 0, "PTX interpreter", compute capability 8.0.
// Modules are PTX text, or fat binaries with plain PTX for compute_80 or less. launch.h says what is modelled and what
// is not.
//
// Streams and events are executed in order and at once, so a host that reads a result before it synchronizes is not
// caught. But a host function runs on a thread of its stream's, and as long as it has not ended, what is issued behind
// it waits; it may not call the driver. Graphs record launches, copies and memsets, and replay them in the order of
// recording. A launch with findings fails as on hardware: later calls answer CUDA_ERROR_LAUNCH_FAILED until
// TakeFindings is called. Copies to the host of bytes that nobody wrote are findings too, of the kernel "copy_to_host".
// Every thread needs a current context.
//
// Memory that is exported (cuIpcGetMemHandle) lies in a file of memory from then on, which another process opens under
// /proc: that process must be of the same user and see the same processes. The marks of what was written lie beside it.
//
// All functions are safe for several threads; one call runs at a time, but for those that wait for a stream.
#ifndef BATON_TESTS_PTX_INTERPRETED_DRIVER_H_
#define BATON_TESTS_PTX_INTERPRETED_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/cuda/driver_api.h"
#include "tests/ptx/findings.h"
#include "tests/ptx/launch.h"

namespace baton::ptx {

// The same table for ever.
const engine::cuda::DriverApi& InterpretedDriver();

// As after the start of the process: nothing allocated, default options. All handles become invalid.
void ResetDriver();

void SetOptions(const Options& options);
Options GetOptions();
// Of device memory in bytes, 8 GiB unless set.
void SetMemoryLimit(uint64_t bytes);

// What was found since the last call. The device works again afterwards.
std::vector<Finding> TakeFindings();
// The same without taking it: a device that has failed stays so.
std::vector<Finding> SeeFindings();
// Why the last module_load_data failed.
std::string ModuleError();

// Instructions of lanes since the start or ResetDriver, in all and by kernel.
uint64_t ExecutedInstructions();
std::map<std::string, uint64_t> InstructionsByKernel();
// Allocations that are not freed.
size_t LiveAllocations();

}  // namespace baton::ptx

#endif  // BATON_TESTS_PTX_INTERPRETED_DRIVER_H_
