#ifndef BATON_TELEMETRY_GZIP_H_
#define BATON_TELEMETRY_GZIP_H_

#include <string>

namespace baton::telemetry {

// `bytes` in gzip's format (RFC 1952).
std::string Gzip(const std::string& bytes);

}  // namespace baton::telemetry

#endif  // BATON_TELEMETRY_GZIP_H_
