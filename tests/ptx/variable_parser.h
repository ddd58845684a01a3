// Declarations of variables.
#ifndef BATON_TESTS_PTX_VARIABLE_PARSER_H_
#define BATON_TESTS_PTX_VARIABLE_PARSER_H_

#include <memory>
#include <optional>
#include <string_view>

#include "tests/ptx/cursor.h"
#include "tests/ptx/module.h"

namespace baton::ptx {

// The state space that a directive names, without registers.
std::optional<Space> SpaceOf(std::string_view directive);

// One variable after its state space: `.align 8 .b8 name[48] = {...}`. What ends it, a comma, a semicolon or a
// parenthesis, is left.
std::unique_ptr<Variable> ParseVariable(Cursor& cursor, Space space);

}  // namespace baton::ptx

#endif  // BATON_TESTS_PTX_VARIABLE_PARSER_H_
