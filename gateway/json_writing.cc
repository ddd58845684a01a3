#include "gateway/json_writing.h"

#include "nlohmann/json.hpp"

namespace baton::gateway {

std::string JsonString(const std::string& text) {
  using nlohmann::json;
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace baton::gateway
