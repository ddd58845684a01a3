// Walks the syntax tree and writes the text.
#ifndef BATON_TOKENIZER_JINJA_INTERPRETER_H_
#define BATON_TOKENIZER_JINJA_INTERPRETER_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "tokenizer/jinja/arguments.h"
#include "tokenizer/jinja/ast.h"

namespace baton::tokenizer::jinja {

// strftime_now(format): the local time as text.
using StrftimeNow = std::function<absl::StatusOr<std::string>(std::string_view format)>;

// For one render; one thread. The template must outlive it.
class Interpreter {
 public:
  Interpreter(Budget* budget, StrftimeNow strftime_now);

  void SetVariable(std::string name, Value value);
  // Errors name the line where they arose.
  absl::StatusOr<std::string> Render(const Body& body);

 private:
  using Scope = absl::flat_hash_map<std::string, Value>;
  enum class Flow : uint8_t { kNext, kBreak, kContinue };

  // Statements (interpreter.cc).
  absl::StatusOr<Flow> ExecuteBody(const Body& body);
  absl::StatusOr<Flow> Execute(const Statement& statement);
  absl::StatusOr<Flow> ExecuteIf(const Statement& statement);
  absl::StatusOr<Flow> ExecuteFor(const Statement& statement);
  absl::StatusOr<std::vector<Value>> LoopItems(const Statement& statement);
  absl::Status ExecuteSet(const Statement& statement);
  absl::StatusOr<Value> Capture(const Body& body);
  absl::Status Write(const Value& value);
  absl::Status Assign(const Statement& statement, const Value& value);
  absl::Status AssignOne(const Target& target, Value value);

  // Expressions (expressions.cc).
  absl::StatusOr<Value> Evaluate(const Expression& node);
  absl::StatusOr<Value> EvaluateKind(const Expression& node);
  absl::StatusOr<Value> EvaluateName(const Expression& node);
  absl::StatusOr<Value> EvaluateList(const Expression& node);
  absl::StatusOr<Value> EvaluateDict(const Expression& node);
  absl::StatusOr<Value> EvaluateUnary(const Expression& node);
  absl::StatusOr<Value> EvaluateBinary(const Expression& node);
  absl::StatusOr<Value> EvaluateLogical(const Expression& node);
  absl::StatusOr<Value> EvaluateCompare(const Expression& node);
  absl::StatusOr<Value> EvaluateConditional(const Expression& node);
  absl::StatusOr<Value> EvaluateSubscript(const Expression& node);
  absl::StatusOr<Value> EvaluateSlice(const Expression& node);
  absl::StatusOr<Value> EvaluateFilter(const Expression& node);
  absl::StatusOr<Value> EvaluateTest(const Expression& node);
  absl::StatusOr<Value> EvaluateCall(const Expression& node);
  absl::StatusOr<Arguments> EvaluateArguments(const Expression& node);
  absl::StatusOr<Value> CallGlobal(const std::string& name, const Arguments& arguments);
  absl::StatusOr<Value> CallRange(const Arguments& arguments);
  absl::StatusOr<Value> CallMacro(const Statement& macro, const Arguments& arguments);

  Budget* const budget_;
  const StrftimeNow strftime_now_;
  // The first scope is the template's own, the last one the innermost.
  std::vector<Scope> scopes_;
  std::vector<std::unique_ptr<NamespaceData>> namespaces_;
  std::string* out_ = nullptr;
};

}  // namespace baton::tokenizer::jinja

#endif  // BATON_TOKENIZER_JINJA_INTERPRETER_H_
