// Results of fragments as a text file, and the interpreter's beside them.
//
//   baton PTX fragments 1
//   device NVIDIA H100 80GB HBM3
//   capability 90
//   driver 13000
//   fragment NAME WORDS DIGEST OF INPUTS
//   lane 0 HEX HEX ...          32 lines
//   ...
//   end
#ifndef BATON_TESTS_PTX_GOLDEN_GOLDEN_FILE_H_
#define BATON_TESTS_PTX_GOLDEN_GOLDEN_FILE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/ptx/golden/fragments.h"

namespace baton::ptx {

// The interpreter's own name as a device. A file with it is no evidence, and is not among the golden files.
inline constexpr std::string_view kInterpreterName = "PTX interpreter";
inline constexpr std::string_view kGoldenSuffix = ".golden";

struct GoldenFile {
  std::string device;
  int capability = 0;
  int driver = 0;
  std::vector<FragmentResult> results;
};

std::string GoldenText(const GoldenFile& file);
// INVALID_ARGUMENT names the line.
absl::StatusOr<GoldenFile> ParseGolden(std::string_view text);
// "NVIDIA_H100_80GB_HBM3-sm90.golden".
std::string GoldenName(const GoldenFile& file);

struct GoldenComparison {
  // One line for each fragment that is wrong or that was recorded with other inputs.
  std::vector<std::string> differences;
  // Fragments that the file lacks.
  std::vector<std::string> not_recorded;
  // Words that are within their tolerance and have other bits.
  int other_bits = 0;
};

// `results` are what the interpreter makes of `fragments`, in their order.
GoldenComparison CompareWithGolden(const GoldenFile& golden, const std::vector<Fragment>& fragments,
                                   const std::vector<FragmentResult>& results);

}  // namespace baton::ptx

#endif  // BATON_TESTS_PTX_GOLDEN_GOLDEN_FILE_H_
