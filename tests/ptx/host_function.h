// Host functions of emulated streams.
#ifndef BATON_TESTS_PTX_HOST_FUNCTION_H_
#define BATON_TESTS_PTX_HOST_FUNCTION_H_

namespace baton::ptx {

// Whether the calling thread is in a host function, which may not call the driver.
bool IsInHostFunction();
void CallHostFunction(void (*function)(void*), void* argument);

}  // namespace baton::ptx

#endif  // BATON_TESTS_PTX_HOST_FUNCTION_H_
