#include "telemetry/trace_context.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "absl/strings/str_format.h"

namespace baton::telemetry {
namespace {

// "00-" trace id "-" span id "-" flags.
constexpr size_t kTraceparentBytes = 55;
constexpr size_t kTraceIdAt = 3;
constexpr size_t kSpanIdAt = 36;
constexpr size_t kFlagsAt = 53;
// Members of a tracestate longer than this are the first to go.
constexpr size_t kLongMemberBytes = 128;

bool IsLowerAlpha(char c) { return c >= 'a' && c <= 'z'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// All digits of `text`, which are lower-case hex.
template <typename Int>
std::optional<Int> ReadHex(std::string_view text) {
  const auto is_hex = [](char c) { return IsDigit(c) || (c >= 'a' && c <= 'f'); };
  Int value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (!std::all_of(text.begin(), text.end(), is_hex) || read.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

// Calls `use` with each member of a list, trimmed, without empty ones, until it returns false.
template <typename Use>
void ForEachMember(std::string_view list, Use use) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    const std::string_view member = Trim(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
    if (!member.empty() && !use(member)) return;
  }
}

// One list of the members of a list, or of the values of a header that occurs several times.
std::string JoinMembers(const std::vector<std::string_view>& members) {
  std::string list;
  for (const std::string_view member : members) {
    if (!list.empty()) list += ',';
    list += member;
  }
  return list;
}

// key = lcalpha 0*255 keychar, or tenant "@" system of at most 241 and 14 characters, of which the tenant may also
// begin with a digit.
bool IsTracestateKey(std::string_view key) {
  const auto is_key_char = [](char c) {
    return IsLowerAlpha(c) || IsDigit(c) || c == '_' || c == '-' || c == '*' || c == '/';
  };
  const auto is_name = [&](std::string_view name, size_t max_bytes, bool may_begin_with_digit) {
    return !name.empty() && name.size() <= max_bytes &&
           (IsLowerAlpha(name[0]) || (may_begin_with_digit && IsDigit(name[0]))) &&
           std::all_of(name.begin(), name.end(), is_key_char);
  };
  const size_t at = key.find('@');
  if (at == std::string_view::npos) return is_name(key, 256, false);
  return is_name(key.substr(0, at), 241, true) && is_name(key.substr(at + 1), 14, false);
}

// Printable ASCII without "," and "="; the list's own spaces have been trimmed.
bool IsTracestateValue(std::string_view value) {
  const auto is_value_char = [](char c) { return c >= ' ' && c <= '~' && c != ',' && c != '='; };
  return !value.empty() && value.size() <= 256 && std::all_of(value.begin(), value.end(), is_value_char);
}

std::string_view KeyOf(std::string_view member) { return member.substr(0, member.find('=')); }

bool IsTracestateMember(std::string_view member) {
  const size_t equals = member.find('=');
  return equals != std::string_view::npos && IsTracestateKey(member.substr(0, equals)) &&
         IsTracestateValue(member.substr(equals + 1));
}

size_t ListBytes(const std::vector<std::string_view>& members) {
  size_t bytes = members.empty() ? 0 : members.size() - 1;
  for (const std::string_view member : members) bytes += member.size();
  return bytes;
}

// A token of RFC 7230.
bool IsToken(std::string_view text) {
  const auto is_token_char = [](char c) {
    return IsLowerAlpha(c) || IsDigit(c) || (c >= 'A' && c <= 'Z') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), is_token_char);
}

// Visible ASCII without what separates members, properties and quotes, and with whole percent-encoded bytes.
bool IsBaggageValue(std::string_view value) {
  const auto is_upper_or_lower_hex = [](char c) {
    return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  };
  for (size_t i = 0; i < value.size(); ++i) {
    const char c = value[i];
    if (c <= ' ' || c > '~' || c == '"' || c == ',' || c == ';' || c == '\\') return false;
    if (c != '%') continue;
    if (value.size() - i < 3 || !is_upper_or_lower_hex(value[i + 1]) || !is_upper_or_lower_hex(value[i + 2]))
      return false;
  }
  return true;
}

// key "=" value, with spaces around each part. A property may have no value.
bool IsBaggagePair(std::string_view pair, bool needs_value) {
  const size_t equals = pair.find('=');
  if (equals == std::string_view::npos) return !needs_value && IsToken(Trim(pair));
  return IsToken(Trim(pair.substr(0, equals))) && IsBaggageValue(Trim(pair.substr(equals + 1)));
}

bool IsBaggageMember(std::string_view member) {
  bool is_first = true;
  while (true) {
    const size_t semicolon = member.find(';');
    if (!IsBaggagePair(member.substr(0, semicolon), is_first)) return false;
    if (semicolon == std::string_view::npos) return true;
    member.remove_prefix(semicolon + 1);
    is_first = false;
  }
}

}  // namespace

std::optional<TraceParent> ParseTraceparent(std::string_view header) {
  if (header.size() < kTraceparentBytes) return std::nullopt;
  const std::optional<uint8_t> version = ReadHex<uint8_t>(header.substr(0, 2));
  if (!version.has_value() || *version == 0xff) return std::nullopt;
  if (header.size() > kTraceparentBytes && (*version == 0 || header[kTraceparentBytes] != '-')) return std::nullopt;
  if (header[kTraceIdAt - 1] != '-' || header[kSpanIdAt - 1] != '-' || header[kFlagsAt - 1] != '-') return std::nullopt;
  const std::optional<uint64_t> high = ReadHex<uint64_t>(header.substr(kTraceIdAt, 16));
  const std::optional<uint64_t> low = ReadHex<uint64_t>(header.substr(kTraceIdAt + 16, 16));
  const std::optional<uint64_t> span = ReadHex<uint64_t>(header.substr(kSpanIdAt, 16));
  const std::optional<uint8_t> flags = ReadHex<uint8_t>(header.substr(kFlagsAt, 2));
  if (!high || !low || !span || !flags) return std::nullopt;
  const TraceParent parent = {.trace_id = {*high, *low}, .span_id = *span, .flags = *flags};
  if (parent.trace_id.is_zero() || parent.span_id == 0) return std::nullopt;
  return parent;
}

std::string FormatTraceparent(const TraceParent& parent) {
  return absl::StrFormat("00-%s-%s-%02x", parent.trace_id.ToHex(), SpanIdToHex(parent.span_id),
                         parent.flags & (kSampledFlag | kRandomFlag));
}

std::string SpanIdToHex(uint64_t span_id) { return absl::StrFormat("%016x", span_id); }

std::string NormalizeTracestate(std::string_view header) {
  std::vector<std::string_view> members;
  bool is_valid = true;
  size_t count = 0;
  ForEachMember(header, [&](std::string_view member) {
    is_valid = ++count <= kMaxTracestateMembers && IsTracestateMember(member);
    const auto has_its_key = [&](std::string_view other) { return KeyOf(other) == KeyOf(member); };
    if (is_valid && std::none_of(members.begin(), members.end(), has_its_key)) members.push_back(member);
    return is_valid;
  });
  if (!is_valid) return {};
  for (size_t i = members.size(); i-- > 0 && ListBytes(members) > kMaxTracestateBytes;) {
    if (members[i].size() > kLongMemberBytes) members.erase(members.begin() + static_cast<ptrdiff_t>(i));
  }
  while (ListBytes(members) > kMaxTracestateBytes) members.pop_back();
  return JoinMembers(members);
}

std::string NormalizeBaggage(std::string_view header) {
  std::vector<std::string_view> members;
  size_t bytes = 0;
  ForEachMember(header, [&](std::string_view member) {
    const size_t more_bytes = member.size() + (members.empty() ? 0 : 1);
    if (bytes + more_bytes <= kMaxBaggageBytes && IsBaggageMember(member)) {
      members.push_back(member);
      bytes += more_bytes;
    }
    return members.size() < kMaxBaggageMembers;
  });
  return JoinMembers(members);
}

TraceContext ReadTraceContext(const TraceHeaders& headers) {
  TraceContext context;
  if (headers.traceparent.size() == 1) context.parent = ParseTraceparent(Trim(headers.traceparent[0]));
  if (context.parent.has_value() && !headers.tracestate.empty()) {
    context.tracestate = NormalizeTracestate(JoinMembers(headers.tracestate));
  }
  if (!headers.baggage.empty()) context.baggage = NormalizeBaggage(JoinMembers(headers.baggage));
  return context;
}

}  // namespace baton::telemetry
