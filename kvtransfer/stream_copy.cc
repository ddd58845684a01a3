#include "kvtransfer/stream_copy.h"

#include <emmintrin.h>

#include <algorithm>
#include <cstring>

namespace baton::kvtransfer {
namespace {

constexpr size_t kLineBytes = 64;
// The processor's own prefetcher stops at every page.
constexpr size_t kPrefetchBytes = 512;

void StreamLine(uint8_t* to, const uint8_t* from) {
  const auto* const source = reinterpret_cast<const __m128i*>(from);
  auto* const target = reinterpret_cast<__m128i*>(to);
  const __m128i a = _mm_loadu_si128(source);
  const __m128i b = _mm_loadu_si128(source + 1);
  const __m128i c = _mm_loadu_si128(source + 2);
  const __m128i d = _mm_loadu_si128(source + 3);
  _mm_stream_si128(target, a);
  _mm_stream_si128(target + 1, b);
  _mm_stream_si128(target + 2, c);
  _mm_stream_si128(target + 3, d);
}

}  // namespace

void StreamCopy(uint8_t* to, const uint8_t* from, size_t bytes) {
  const size_t head = std::min(bytes, -reinterpret_cast<uintptr_t>(to) % kLineBytes);
  std::memcpy(to, from, head);
  size_t at = head;
  for (; bytes - at >= kLineBytes; at += kLineBytes) {
    _mm_prefetch(reinterpret_cast<const char*>(from + at + kPrefetchBytes), _MM_HINT_NTA);
    StreamLine(to + at, from + at);
  }
  std::memcpy(to + at, from + at, bytes - at);
  // The processor orders streamed stores with no other store: a fence has to follow them.
  _mm_sfence();
}

}  // namespace baton::kvtransfer
