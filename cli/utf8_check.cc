#include "cli/utf8_check.h"

#include "absl/strings/str_cat.h"
#include "common/utf8.h"

namespace baton::cli {

absl::Status CheckUtf8(const std::string& text) {
  const size_t valid = ValidUtf8Bytes(text);
  if (valid == text.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the text is not valid UTF-8 at byte ", valid));
}

}  // namespace baton::cli
