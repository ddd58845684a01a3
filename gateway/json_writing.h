// Pieces of JSON, as all APIs write them.
#ifndef BATON_GATEWAY_JSON_WRITING_H_
#define BATON_GATEWAY_JSON_WRITING_H_

#include <string>

namespace baton::gateway {

// A text as a JSON string, with its quotes. What is no UTF-8 becomes U+FFFD.
std::string JsonString(const std::string& text);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_JSON_WRITING_H_
