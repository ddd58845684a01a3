// What an HTTP request asks for.
#ifndef BATON_TELEMETRY_REQUEST_TARGET_H_
#define BATON_TELEMETRY_REQUEST_TARGET_H_

#include <optional>
#include <string_view>

#include "telemetry/admin_types.h"

namespace baton::telemetry {

// Views into the text that was parsed.
struct RequestTarget {
  // A target in absolute form (http://host/path?query) has one, which counts in place of the Host header. It is empty
  // in origin form (/path?query).
  std::string_view authority = {};
  AdminRequest request = {};
};

// nullopt for a target in any other form.
std::optional<RequestTarget> ParseRequestTarget(std::string_view target);

}  // namespace baton::telemetry

#endif  // BATON_TELEMETRY_REQUEST_TARGET_H_
