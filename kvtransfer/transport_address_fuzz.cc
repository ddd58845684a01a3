// DecodeAddress on arbitrary bytes, and on the same bytes with a digest that fits, so that the parser behind the digest
// is reached. What decodes must encode to the same bytes.
#include <cstdint>
#include <string>
#include <string_view>

#include "common/check.h"
#include "common/digest.h"
#include "kvtransfer/transport_address.h"

namespace {

void AppendU64(std::string& out, uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8) out.push_back(static_cast<char>(value >> shift & 0xff));
}

void Try(std::string_view bytes) {
  const auto address = baton::kvtransfer::DecodeAddress(bytes);
  if (address.ok()) BATON_CHECK(baton::kvtransfer::EncodeAddress(*address) == bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  std::string input(reinterpret_cast<const char*>(data), bytes);
  Try(input);
  const baton::Digest128 digest = baton::DigestBytes(input.data(), input.size());
  AppendU64(input, digest.high);
  AppendU64(input, digest.low);
  Try(input);
  return 0;
}
