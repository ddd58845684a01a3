#include "grammar/string_formats.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace baton::grammar {
namespace {

// RFC 3339, with the 29th of February in leap years alone.
std::string DateRegex() {
  const std::string day_of_month =
      "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-"
      "8]))";
  const std::string leap_year = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)";
  return absl::StrCat("(?:[0-9]{4}-", day_of_month, "|", leap_year, "-02-29)");
}

// RFC 3339. A leap second is written in UTC alone.
std::string TimeRegex() {
  const std::string hour = "(?:[01][0-9]|2[0-3])";
  const std::string fraction = "(?:\\.[0-9]+)?";
  return absl::StrCat("(?:", hour, ":[0-5][0-9]:[0-5][0-9]", fraction, "(?:[Zz]|[+-]", hour, ":[0-5][0-9])|23:59:60",
                      fraction, "(?:[Zz]|[+-]00:00))");
}

// Appendix A of RFC 3339.
std::string DurationRegex() {
  const std::string time = "(?:T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S))";
  const std::string date = "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)";
  return absl::StrCat("P(?:", date, time, "?|", time, "|[0-9]+W)");
}

std::string Ipv4Regex() {
  const std::string part = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  return absl::StrCat(part, "(?:\\.", part, "){3}");
}

// RFC 4291, section 2.2.
std::string Ipv6Regex() {
  const std::string part = "[0-9A-Fa-f]{1,4}";
  const std::string last = absl::StrCat("(?:", part, ":", part, "|", Ipv4Regex(), ")");
  const auto before = [&part](int at_most) {
    return at_most == 0 ? absl::StrCat("(?:", part, ")?")
                        : absl::StrCat("(?:(?:", part, ":){0,", at_most, "}", part, ")?");
  };
  std::vector<std::string> forms = {absl::StrCat("(?:", part, ":){6}", last)};
  for (int after = 5; after >= 0; --after) {
    const std::string tail = after == 0 ? last : absl::StrCat("(?:", part, ":){", after, "}", last);
    const std::string head = after == 5 ? "" : before(4 - after);
    forms.push_back(absl::StrCat(head, "::", tail));
  }
  forms.push_back(absl::StrCat(before(5), "::", part));
  forms.push_back(absl::StrCat(before(6), "::"));
  return absl::StrCat("(?:", absl::StrJoin(forms, "|"), ")");
}

// Mailbox of RFC 5321, without address literals of kinds yet to be defined, and without limits of length.
std::string EmailRegex() {
  const std::string atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
  const std::string quoted = "\"(?:[ !#-\\[\\]-~]|\\\\[ -~])*\"";
  const std::string label = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?";
  return absl::StrCat("(?:", atom, "(?:\\.", atom, ")*|", quoted, ")@(?:", label, "(?:\\.", label,
                      ")*|\\[(?:", Ipv4Regex(), "|[Ii][Pp][Vv]6:", Ipv6Regex(), ")\\])");
}

// RFC 3986.
std::string UriRegex() {
  const std::string plain = "A-Za-z0-9._~!$&'()*+,;=\\-";
  const auto any_of = [&plain](const std::string& more) {
    return absl::StrCat("(?:[", plain, more, "]|%[0-9A-Fa-f]{2})");
  };
  const std::string segments = absl::StrCat("(?:/", any_of(":@"), "*)*");
  const std::string ip_literal = absl::StrCat("\\[(?:", Ipv6Regex(), "|[Vv][0-9A-Fa-f]+\\.[", plain, ":]+)\\]");
  const std::string authority =
      absl::StrCat("(?:", any_of(":"), "*@)?(?:", ip_literal, "|", any_of(""), "*)(?::[0-9]*)?");
  const std::string path = absl::StrCat("(?://", authority, segments, "|/(?:", any_of(":@"), "+", segments, ")?|",
                                        any_of(":@"), "+", segments, "|)");
  const std::string rest = absl::StrCat(any_of(":@/?"), "*");
  return absl::StrCat("[A-Za-z][A-Za-z0-9+.-]*:", path, "(?:\\?", rest, ")?(?:#", rest, ")?");
}

}  // namespace

std::optional<std::string> RegexOfFormat(std::string_view format) {
  if (format == "date") return DateRegex();
  if (format == "time") return TimeRegex();
  if (format == "date-time") return absl::StrCat(DateRegex(), "[Tt]", TimeRegex());
  if (format == "duration") return DurationRegex();
  if (format == "ipv4") return Ipv4Regex();
  if (format == "ipv6") return Ipv6Regex();
  if (format == "email") return EmailRegex();
  if (format == "uri") return UriRegex();
  if (format == "json-pointer") return "(?:/(?:[^/~]|~[01])*)*";
  if (format == "uuid") return "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}";
  return std::nullopt;
}

}  // namespace baton::grammar
