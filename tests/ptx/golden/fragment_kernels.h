// The kernels of fragments.cc. Each is one warp: a lane reads its words of `in` and writes its words of `out`, which
// lie lane after lane. How many there are stands beside each kernel in fragment_kernels.cu. Needs no header of CUDA.
#ifndef BATON_TESTS_PTX_GOLDEN_FRAGMENT_KERNELS_H_
#define BATON_TESTS_PTX_GOLDEN_FRAGMENT_KERNELS_H_

#include <cstdint>

namespace baton::ptx {

// Addresses of the device, of 16 bytes' alignment.
struct FragmentParams {
  const uint32_t* in;
  uint32_t* out;
};

}  // namespace baton::ptx

#endif  // BATON_TESTS_PTX_GOLDEN_FRAGMENT_KERNELS_H_
