// What the sessions of all HTTP servers say and ask alike. Only sources that include Beast anyway include this.
#ifndef BATON_TELEMETRY_HTTP_TEXT_H_
#define BATON_TELEMETRY_HTTP_TEXT_H_

#include <boost/beast/core/string_type.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/system/error_code.hpp>
#include <string>
#include <string_view>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace baton::telemetry {

inline std::string_view ToStdView(boost::beast::string_view text) { return {text.data(), text.size()}; }

// The value of the Date header, now.
inline std::string HttpDate() {
  return absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT", absl::Now(), absl::UTCTimeZone());
}

// The client has sent what is no HTTP, which it is to be told. False for one that has left, and for success.
inline bool IsBadHttp(const boost::system::error_code& error) {
  namespace http = boost::beast::http;
  const bool is_of_parser = error && error.category() == http::make_error_code(http::error::bad_target).category();
  return is_of_parser && error != http::error::end_of_stream && error != http::error::partial_message;
}

}  // namespace baton::telemetry

#endif  // BATON_TELEMETRY_HTTP_TEXT_H_
