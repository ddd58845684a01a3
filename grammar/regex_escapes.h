// What stands behind a backslash in a regular expression.
#ifndef BATON_GRAMMAR_REGEX_ESCAPES_H_
#define BATON_GRAMMAR_REGEX_ESCAPES_H_

#include "absl/status/statusor.h"
#include "grammar/code_points.h"
#include "grammar/source_reader.h"

namespace baton::grammar {

// The characters that an escape stands for. The reader is before its backslash, and then behind it.
absl::StatusOr<CodePointSet> ReadRegexEscape(SourceReader* reader, bool in_class);

// What a dot stands for.
CodePointSet AnyButLineEnds();

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_REGEX_ESCAPES_H_
