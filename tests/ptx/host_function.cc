#include "tests/ptx/host_function.h"

namespace baton::ptx {
namespace {

thread_local bool in_host_function = false;

}  // namespace

bool IsInHostFunction() { return in_host_function; }

void CallHostFunction(void (*function)(void*), void* argument) {
  in_host_function = true;
  function(argument);
  in_host_function = false;
}

}  // namespace baton::ptx
