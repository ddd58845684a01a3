// The functions that fill the driver's table, by their names there.
#ifndef BATON_TESTS_PTX_DRIVER_FUNCTIONS_H_
#define BATON_TESTS_PTX_DRIVER_FUNCTIONS_H_

#include "engine/cuda/driver_api.h"

namespace baton::ptx {

// Of this thread.
CUcontext CurrentContext();

// Each adds its functions.
void AddDeviceFunctions(engine::cuda::DriverApi& api);
void AddModuleFunctions(engine::cuda::DriverApi& api);
void AddMemoryFunctions(engine::cuda::DriverApi& api);
void AddIpcFunctions(engine::cuda::DriverApi& api);
void AddStreamFunctions(engine::cuda::DriverApi& api);
void AddGraphFunctions(engine::cuda::DriverApi& api);

}  // namespace baton::ptx

#endif  // BATON_TESTS_PTX_DRIVER_FUNCTIONS_H_
