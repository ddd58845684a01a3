// The values of JSON Schema's `format` that a regular expression decides exactly.
#ifndef BATON_GRAMMAR_STRING_FORMATS_H_
#define BATON_GRAMMAR_STRING_FORMATS_H_

#include <optional>
#include <string>
#include <string_view>

namespace baton::grammar {

// A regular expression that the whole string matches; nullopt for a format that is not supported.
std::optional<std::string> RegexOfFormat(std::string_view format);

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_STRING_FORMATS_H_
