#include "tests/ptx/fat_binary.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "absl/status/status.h"
#include "tests/ptx/text.h"

namespace baton::ptx {
namespace {

constexpr unsigned char kMagic[] = {0x50, 0xed, 0x55, 0xba};
constexpr uint16_t kVersion = 1;
constexpr uint64_t kMostBytes = 1 << 30;
constexpr uint16_t kPtx = 1;
// By LZ4 or by zstd.
constexpr uint64_t kCompressed = 0x2000 | 0x8000;

struct Header {
  uint32_t magic;
  uint16_t version;
  uint16_t header_bytes;
  // Of the entries, which lie behind the header.
  uint64_t bytes;
};
static_assert(sizeof(Header) == 16);

// The payload lies behind it, and behind that the next entry.
struct Entry {
  uint16_t kind;
  uint16_t version;
  uint32_t header_bytes;
  uint64_t payload_bytes;
  uint32_t compressed_bytes;
  uint32_t options_at;
  uint16_t minor;
  uint16_t major;
  uint32_t target;
  uint32_t name_at;
  uint32_t name_bytes;
  uint64_t flags;
};
static_assert(sizeof(Entry) == 48);

absl::Status Damaged(std::string_view what) {
  return absl::InvalidArgumentError(Text("the fat binary is damaged: ", what));
}

}  // namespace

bool IsFatBinary(const void* image) {
  return std::equal(std::begin(kMagic), std::end(kMagic), static_cast<const unsigned char*>(image));
}

absl::StatusOr<std::string> PtxOfFatBinary(const void* image, int newest) {
  Header header;
  std::memcpy(&header, image, sizeof(header));
  if (header.version != kVersion || header.header_bytes < sizeof(Header)) return Damaged("its header is unknown");
  if (header.bytes > kMostBytes) return Damaged("its size is beyond all measure");
  std::string_view rest(static_cast<const char*>(image) + header.header_bytes, header.bytes);
  std::string_view text;
  int text_target = -1;
  while (!rest.empty()) {
    Entry entry;
    if (rest.size() < sizeof(entry)) return Damaged("an entry is cut off");
    std::memcpy(&entry, rest.data(), sizeof(entry));
    if (entry.header_bytes < sizeof(entry) || entry.header_bytes > rest.size()) {
      return Damaged("the header of an entry has a wrong size");
    }
    if (entry.payload_bytes > rest.size() - entry.header_bytes) return Damaged("an image is cut off");
    const std::string_view payload = rest.substr(entry.header_bytes, entry.payload_bytes);
    rest.remove_prefix(entry.header_bytes + entry.payload_bytes);
    if (entry.kind != kPtx || entry.target > static_cast<uint32_t>(newest)) continue;
    const int target = static_cast<int>(entry.target);
    if (target <= text_target) continue;
    if (entry.compressed_bytes != 0 || (entry.flags & kCompressed) != 0) {
      return absl::InvalidArgumentError(
          "the PTX of the fat binary is compressed: nvcc leaves it plain by --no-compress");
    }
    text = payload;
    text_target = target;
  }
  if (text_target < 0) return absl::NotFoundError(Text("the fat binary has no PTX for sm_", newest));
  // Zeros fill the payload up.
  return std::string(text.substr(0, text.find('\0')));
}

}  // namespace baton::ptx
