#include "telemetry/gzip.h"

#include <zlib.h>

#include "common/check.h"

namespace baton::telemetry {
namespace {

// Spans repeat their keys, so the fastest level already takes most of the bytes away.
constexpr int kLevel = Z_BEST_SPEED;
// The largest window, and 16 for the header of gzip.
constexpr int kWindowBits = 15 + 16;
constexpr int kMemoryLevel = 8;

}  // namespace

std::string Gzip(const std::string& bytes) {
  z_stream stream{};
  BATON_CHECK(deflateInit2(&stream, kLevel, Z_DEFLATED, kWindowBits, kMemoryLevel, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string compressed(deflateBound(&stream, bytes.size()), '\0');
  // zlib does not write to its input.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(compressed.data());
  stream.avail_out = static_cast<uInt>(compressed.size());
  BATON_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  compressed.resize(stream.total_out);
  deflateEnd(&stream);
  return compressed;
}

}  // namespace baton::telemetry
