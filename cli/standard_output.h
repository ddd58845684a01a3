// Results go to standard output, and a command that could not write all of them has failed.
#ifndef BATON_CLI_STANDARD_OUTPUT_H_
#define BATON_CLI_STANDARD_OUTPUT_H_

#include "absl/status/status.h"

namespace baton::cli {

// From now on std::cout writes to descriptor 1 by itself and remembers the first error; a closed pipe is one, not a
// signal. A standard descriptor that is closed is opened on nothing, so that no other file takes its number. Call it
// first in main.
void WatchStandardOutput();

// Writes what std::cout holds. CANCELLED when the reader of a pipe has gone, DATA_LOSS for any other error.
absl::Status FlushStandardOutput();

}  // namespace baton::cli

#endif  // BATON_CLI_STANDARD_OUTPUT_H_
