// Checks that tests of damaged files share.
#ifndef BATON_MODELFILE_TESTING_ERROR_TEXT_H_
#define BATON_MODELFILE_TESTING_ERROR_TEXT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"

namespace baton::modelfile {

inline constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
inline constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;

// The message of an error, which must have this code and take one line.
template <typename T>
std::string ErrorText(const absl::StatusOr<T>& result, absl::StatusCode code = kInvalid) {
  EXPECT_EQ(result.status().code(), code) << result.status();
  EXPECT_EQ(result.status().message().find('\n'), std::string::npos);
  return std::string(result.status().message());
}

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_TESTING_ERROR_TEXT_H_
