// Parts of a JSON text, with the members of its objects in the order in which the client wrote them. nlohmann::json
// does not keep that order; nlohmann::ordered_json does, but takes quadratic time for an object with many members.
#ifndef BATON_GATEWAY_JSON_TEXT_H_
#define BATON_GATEWAY_JSON_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace baton::gateway {

// The largest object that ParseOrdered takes.
inline constexpr size_t kMaxOrderedMembers = 1024;

// All texts are JSON that a parser has taken. These two take linear time.

// The value of an object's member; empty where there is none, and for what is no object. Of two with one name it is the
// last, as in parsed JSON.
std::string_view JsonMember(std::string_view object, std::string_view name);
// The items of a list; none for what is no list.
std::vector<std::string_view> JsonItems(std::string_view list);

// Without the white space between its words.
std::string CompactJson(std::string_view text);

// INVALID_ARGUMENT, by the name of the field, for an object of more than kMaxOrderedMembers.
absl::StatusOr<nlohmann::ordered_json> ParseOrdered(std::string_view text, const std::string& field);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_JSON_TEXT_H_
