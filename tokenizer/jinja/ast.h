// The syntax tree of a template. Its depth is bounded by Limits::syntax_depth, so it may be walked by recursion.
#ifndef BATON_TOKENIZER_JINJA_AST_H_
#define BATON_TOKENIZER_JINJA_AST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tokenizer/jinja/value.h"

namespace baton::tokenizer::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

// What `name` and `children` are for each kind:
struct Expression {
  enum class Kind : uint8_t {
    kLiteral,
    kName,         // name
    kList,         // items
    kTuple,        // items
    kDict,         // key, value, key, value, ...
    kUnary,        // name: "-", "+", "not"; operand
    kBinary,       // name: an arithmetic operator or "~"; left, right
    kLogical,      // name: "and", "or"; left, right
    kCompare,      // operators; first operand, then one for each operator
    kConditional,  // then, condition, else (may be null)
    kAttribute,    // name; object
    kSubscript,    // object, key
    kSlice,        // object, begin, end, step (each may be null)
    kCall,         // callee, arguments
    kFilter,       // name; operand, arguments
    kTest,         // name; operand, arguments
  };

  Kind kind;
  int line = 0;
  // 1 + the depth of the deepest child.
  int depth = 1;
  Value literal;
  std::string name;
  std::vector<ExpressionPtr> children;
  // The operators of kCompare. For kCall, kFilter and kTest the argument names of all children after the first; empty
  // for a positional argument.
  std::vector<std::string> names;
};

struct Statement;
using Body = std::vector<std::unique_ptr<Statement>>;

// Where a value goes: a variable, or an attribute of a namespace.
struct Target {
  std::string name;
  std::string attribute;  // empty if the target is the variable itself
};

struct Statement {
  enum class Kind : uint8_t {
    kText,      // text
    kPrint,     // expression
    kIf,        // a condition for each body, and one more body for else if there is one
    kFor,       // targets; iterable, filter (may be null); body, else body
    kSet,       // targets; value
    kSetBlock,  // targets (one); body
    kMacro,     // text: its name; targets: parameters; a default for each (may be null); body
    kScope,     // body: a tag without effect, such as {% generation %}
    kBreak,
    kContinue,
  };

  Kind kind;
  int line = 0;
  std::string text;
  std::vector<ExpressionPtr> expressions;
  std::vector<Body> bodies;
  std::vector<Target> targets;
  // A single target takes the whole value. With several, the value is unpacked.
  bool unpack = false;
};

}  // namespace baton::tokenizer::jinja

#endif  // BATON_TOKENIZER_JINJA_AST_H_
