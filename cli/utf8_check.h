// Texts of a user that are about to become a request.
#ifndef BATON_CLI_UTF8_CHECK_H_
#define BATON_CLI_UTF8_CHECK_H_

#include <string>

#include "absl/status/status.h"

namespace baton::cli {

// INVALID_ARGUMENT names the first byte of a text that is not UTF-8, which no request may have.
absl::Status CheckUtf8(const std::string& text);

}  // namespace baton::cli

#endif  // BATON_CLI_UTF8_CHECK_H_
