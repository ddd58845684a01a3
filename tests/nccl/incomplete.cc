// A library that says it is NCCL and cannot move anything.
#include "kvtransfer/transports/nccl/nccl_types.h"

extern "C" baton::kvtransfer::nccl::Result ncclGetVersion(int* version) {
  *version = baton::kvtransfer::nccl::Version(2, 28, 9);
  return baton::kvtransfer::nccl::kSuccess;
}
