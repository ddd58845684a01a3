// The stand-in of NCCL (tests/nccl) in a test's process. BATON_NCCL_STAND_IN is its file.
#ifndef BATON_KVTRANSFER_TESTING_NCCL_STAND_IN_H_
#define BATON_KVTRANSFER_TESTING_NCCL_STAND_IN_H_

#include <dlfcn.h>

#include "common/check.h"
#include "kvtransfer/transports/nccl/nccl_api.h"

namespace baton::kvtransfer {

inline const NcclApi& StandIn() {
  static const NcclApi* const kApi = [] {
    auto api = LoadNcclApi(BATON_NCCL_STAND_IN);
    BATON_CHECK(api.ok()) << api.status();
    return new NcclApi(*std::move(api));
  }();
  return *kApi;
}

// A function that only the stand-in has.
template <typename Function>
Function* StandInFunction(const char* name) {
  auto* const function = reinterpret_cast<Function*>(dlsym(StandIn().handle, name));
  BATON_CHECK(function != nullptr) << name;
  return function;
}

// A fault of tests/nccl/faults.h, for as long as this object lives, in all of the process.
class StandInFault {
 public:
  explicit StandInFault(const char* words) { Set(words); }
  ~StandInFault() { Set(""); }
  StandInFault(const StandInFault&) = delete;
  StandInFault& operator=(const StandInFault&) = delete;

 private:
  static void Set(const char* words) { StandInFunction<void(const char*)>("batonStandInSetFault")(words); }
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TESTING_NCCL_STAND_IN_H_
