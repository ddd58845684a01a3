// Which kernel tables this machine runs.
#ifndef BATON_ENGINE_KERNELS_DISPATCH_H_
#define BATON_ENGINE_KERNELS_DISPATCH_H_

#include <vector>

#include "common/kv_layout.h"
#include "engine/kernels/kernel_table.h"

namespace baton::engine::kernels {

// The tables that processor and operating system support: the scalar table first, the fastest last.
const std::vector<const KernelTable*>& SupportedKernels();

// The attention of a table over KV of a type.
using AttentionKernel = void (*)(const AttentionCall& call);
AttentionKernel AttentionOver(KvDtype dtype, const KernelTable& table);

// Puts the calling thread's floating-point unit into the state that every kernel assumes, and restores it at the end.
class FpStateGuard {
 public:
  FpStateGuard();
  ~FpStateGuard();
  FpStateGuard(const FpStateGuard&) = delete;
  FpStateGuard& operator=(const FpStateGuard&) = delete;

 private:
  unsigned saved_;
};

}  // namespace baton::engine::kernels

#endif  // BATON_ENGINE_KERNELS_DISPATCH_H_
