#include "telemetry/allowed_hosts.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <optional>

#include "absl/strings/ascii.h"
#include "common/status.h"

namespace baton::telemetry {
namespace {

bool IsLiteral(int family, const std::string& text) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return inet_pton(family, text.c_str(), address.data()) == 1;
}

std::string NormalizeName(std::string_view name) {
  if (!name.empty() && name.back() == '.') name.remove_suffix(1);
  return absl::AsciiStrToLower(ToAbsl(name));
}

// ":" and digits, or nothing.
bool IsPort(std::string_view text) {
  if (text.empty()) return true;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return text[0] == ':' && text.size() <= 6 && std::all_of(text.begin() + 1, text.end(), is_digit);
}

bool IsNameChar(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_';
}

// The address between brackets of an authority that begins with one.
std::optional<std::string> ReadBracketed(std::string_view authority) {
  const size_t end = authority.find(']');
  if (end == std::string_view::npos || !IsPort(authority.substr(end + 1))) return std::nullopt;
  return std::string(authority.substr(1, end - 1));
}

}  // namespace

AllowedHosts::AllowedHosts(std::string_view bind, const std::vector<std::string>& names) : names_({"localhost"}) {
  names_.insert(NormalizeName(bind));
  for (const std::string& name : names) {
    if (name == "*") allows_all_ = true;
    names_.insert(NormalizeName(name));
  }
}

HostVerdict AllowedHosts::Check(std::string_view authority) const {
  if (!authority.empty() && authority[0] == '[') {
    const std::optional<std::string> address = ReadBracketed(authority);
    return address.has_value() && IsLiteral(AF_INET6, *address) ? HostVerdict::kAllowed : HostVerdict::kMalformed;
  }
  const size_t colon = std::min(authority.find(':'), authority.size());
  const std::string_view host = authority.substr(0, colon);
  if (!IsPort(authority.substr(colon)) || !std::all_of(host.begin(), host.end(), IsNameChar)) {
    return HostVerdict::kMalformed;
  }
  const std::string name = NormalizeName(host);
  if (name.empty()) return HostVerdict::kRefused;
  return allows_all_ || names_.contains(name) || IsLiteral(AF_INET, name) ? HostVerdict::kAllowed
                                                                          : HostVerdict::kRefused;
}

}  // namespace baton::telemetry
