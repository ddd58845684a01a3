// Fat binaries, as nvcc -fatbin writes them: images of one source for several targets.
#ifndef BATON_TESTS_PTX_FAT_BINARY_H_
#define BATON_TESTS_PTX_FAT_BINARY_H_

#include <string>

#include "absl/status/statusor.h"

namespace baton::ptx {

// Whether `image` begins as a fat binary does. Reads no byte behind the first that differs.
bool IsFatBinary(const void* image);

// The PTX text for the newest target up to `newest` (80 is sm_80). `image` has as many bytes as its header says, which
// is all that tells its size. INVALID_ARGUMENT for a damaged image and for compressed PTX, NOT_FOUND without such PTX.
absl::StatusOr<std::string> PtxOfFatBinary(const void* image, int newest);

}  // namespace baton::ptx

#endif  // BATON_TESTS_PTX_FAT_BINARY_H_
