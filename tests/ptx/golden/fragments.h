// What small groups of instructions make of fixed inputs, lane by lane: layouts of matrices, sums of tensor cores,
// roundings, exchanges. A GPU's results are kept as golden files (golden_file.h), which the interpreter of PTX has to
// agree with: they guard what its author may have misread.
#ifndef BATON_TESTS_PTX_GOLDEN_FRAGMENTS_H_
#define BATON_TESTS_PTX_GOLDEN_FRAGMENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/cuda/device.h"

namespace baton::ptx {

struct Fragment {
  std::string name;
  const char* kernel = nullptr;
  // Of 32 lanes, one after the other.
  std::vector<uint32_t> inputs;
  // That each lane writes.
  int words = 0;
  // Empty: every word has one right value. Else each word is an f32 that may be off by this much; any NaN stands for
  // every other.
  std::vector<float> tolerances = {};
};

struct FragmentResult {
  std::string name;
  // Digest of the inputs.
  std::string inputs;
  int words = 0;
  std::vector<uint32_t> values;
};

// Tolerances of sums are 2^-18 of the sum of their terms' magnitudes: a tensor core may align 17 terms to the largest
// and cut each at 24 bits. Those of ex2 are 4 units in the last place: both sides may be off by 2.
std::vector<Fragment> AllFragments();

// On a device that was opened with FragmentsImage(). The errors are those of the driver.
absl::StatusOr<std::vector<FragmentResult>> RunFragments(const engine::cuda::Device& device,
                                                         const std::vector<Fragment>& fragments);

// A fat binary like that of engine/cuda/kernels/images.h.
const void* FragmentsImage();

}  // namespace baton::ptx

#endif  // BATON_TESTS_PTX_GOLDEN_FRAGMENTS_H_
