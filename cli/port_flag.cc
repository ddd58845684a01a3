#include "cli/port_flag.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace baton::cli {
namespace {

constexpr char kOff[] = "off";
constexpr int kMaxPort = 65535;

std::string CheckPortOrOff(const std::string& text) {
  int port = -1;
  const bool is_port = absl::SimpleAtoi(text, &port) && port >= 0 && port <= kMaxPort;
  return is_port || text == kOff ? std::string() : absl::StrCat("not a port from 0 to ", kMaxPort, ", nor off: ", text);
}

}  // namespace

CLI::Validator PortOrOffCheck() {
  return {[](std::string& text) { return CheckPortOrOff(text); }, "PORT"};
}

std::optional<int> PortOrOff(const std::string& text, int default_port) {
  if (text == kOff) return std::nullopt;
  int port = default_port;
  return text.empty() || absl::SimpleAtoi(text, &port) ? std::optional(port) : std::nullopt;
}

}  // namespace baton::cli
