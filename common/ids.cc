#include "common/ids.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace baton {
namespace {

constexpr size_t kHexDigits = 32;

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

std::string Id128::ToHex() const { return absl::StrFormat("%016x%016x", high, low); }

absl::StatusOr<Id128> Id128::FromHex(std::string_view hex) {
  if (hex.size() != kHexDigits) return absl::InvalidArgumentError("an id is 32 hex digits");
  std::array<uint64_t, 2> words = {0, 0};
  for (size_t i = 0; i < kHexDigits; ++i) {
    const int value = HexValue(hex[i]);
    if (value < 0) return absl::InvalidArgumentError("an id is 32 lower-case hex digits");
    words[i / 16] = words[i / 16] << 4 | static_cast<uint64_t>(value);
  }
  return Id128{words[0], words[1]};
}

std::string ChoiceKey::ToString() const { return choice == 0 ? job.ToHex() : absl::StrCat(job.ToHex(), ":", choice); }

std::string JobKey::ToString() const { return absl::StrCat(choice_key().ToString(), "/", attempt); }

}  // namespace baton
