#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/interpreter.h"
#include "tokenizer/jinja/operators.h"

namespace baton::tokenizer::jinja {

absl::StatusOr<Value> Interpreter::Evaluate(const Expression& node) {
  const Budget::Nested nested(budget_);
  BATON_RETURN_IF_ERROR(nested.status());
  BATON_RETURN_IF_ERROR(budget_->Step());
  return EvaluateKind(node);
}

absl::StatusOr<Value> Interpreter::EvaluateKind(const Expression& node) {
  switch (node.kind) {
    case Expression::Kind::kLiteral:
      return node.literal;
    case Expression::Kind::kName:
      return EvaluateName(node);
    case Expression::Kind::kList:
    case Expression::Kind::kTuple:
      return EvaluateList(node);
    case Expression::Kind::kDict:
      return EvaluateDict(node);
    case Expression::Kind::kUnary:
      return EvaluateUnary(node);
    case Expression::Kind::kBinary:
      return EvaluateBinary(node);
    case Expression::Kind::kLogical:
      return EvaluateLogical(node);
    case Expression::Kind::kCompare:
      return EvaluateCompare(node);
    case Expression::Kind::kConditional:
      return EvaluateConditional(node);
    case Expression::Kind::kAttribute: {
      BATON_ASSIGN_OR_RETURN(const Value object, Evaluate(*node.children[0]));
      return GetAttribute(budget_, object, node.name);
    }
    case Expression::Kind::kSubscript:
      return EvaluateSubscript(node);
    case Expression::Kind::kSlice:
      return EvaluateSlice(node);
    case Expression::Kind::kCall:
      return EvaluateCall(node);
    case Expression::Kind::kFilter:
      return EvaluateFilter(node);
    case Expression::Kind::kTest:
      return EvaluateTest(node);
  }
  return Value();
}

absl::StatusOr<Value> Interpreter::EvaluateName(const Expression& node) {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto it = scope->find(node.name);
    if (it != scope->end()) return it->second;
  }
  return Value::MakeUndefined(node.name);
}

absl::StatusOr<Value> Interpreter::EvaluateList(const Expression& node) {
  std::vector<Value> items;
  for (const ExpressionPtr& child : node.children) {
    BATON_ASSIGN_OR_RETURN(Value item, Evaluate(*child));
    items.push_back(std::move(item));
  }
  return MakeList(budget_, std::move(items), node.kind == Expression::Kind::kTuple);
}

absl::StatusOr<Value> Interpreter::EvaluateDict(const Expression& node) {
  Entries entries;
  for (size_t i = 0; i + 1 < node.children.size(); i += 2) {
    BATON_ASSIGN_OR_RETURN(Value key, Evaluate(*node.children[i]));
    BATON_ASSIGN_OR_RETURN(Value value, Evaluate(*node.children[i + 1]));
    entries.emplace_back(std::move(key), std::move(value));
  }
  return MakeDict(budget_, std::move(entries));
}

absl::StatusOr<Value> Interpreter::EvaluateUnary(const Expression& node) {
  BATON_ASSIGN_OR_RETURN(const Value operand, Evaluate(*node.children[0]));
  if (node.name == "not") return Value::Bool(!operand.Truthy());
  return ApplySign(node.name, operand);
}

absl::StatusOr<Value> Interpreter::EvaluateBinary(const Expression& node) {
  BATON_ASSIGN_OR_RETURN(const Value left, Evaluate(*node.children[0]));
  BATON_ASSIGN_OR_RETURN(const Value right, Evaluate(*node.children[1]));
  return ApplyBinary(budget_, node.name, left, right);
}

absl::StatusOr<Value> Interpreter::EvaluateLogical(const Expression& node) {
  BATON_ASSIGN_OR_RETURN(Value left, Evaluate(*node.children[0]));
  if (left.Truthy() == (node.name == "or")) return left;
  return Evaluate(*node.children[1]);
}

absl::StatusOr<Value> Interpreter::EvaluateCompare(const Expression& node) {
  BATON_ASSIGN_OR_RETURN(Value left, Evaluate(*node.children[0]));
  for (size_t i = 0; i < node.names.size(); ++i) {
    BATON_ASSIGN_OR_RETURN(Value right, Evaluate(*node.children[i + 1]));
    BATON_ASSIGN_OR_RETURN(const bool holds, ApplyCompare(budget_, node.names[i], left, right));
    if (!holds) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

absl::StatusOr<Value> Interpreter::EvaluateConditional(const Expression& node) {
  BATON_ASSIGN_OR_RETURN(const Value condition, Evaluate(*node.children[1]));
  if (condition.Truthy()) return Evaluate(*node.children[0]);
  return node.children[2] == nullptr ? Value() : Evaluate(*node.children[2]);
}

absl::StatusOr<Value> Interpreter::EvaluateSubscript(const Expression& node) {
  BATON_ASSIGN_OR_RETURN(const Value object, Evaluate(*node.children[0]));
  BATON_ASSIGN_OR_RETURN(const Value key, Evaluate(*node.children[1]));
  return GetItem(budget_, object, key);
}

absl::StatusOr<Value> Interpreter::EvaluateSlice(const Expression& node) {
  BATON_ASSIGN_OR_RETURN(const Value object, Evaluate(*node.children[0]));
  SliceBounds bounds;
  std::optional<int64_t>* const parts[] = {&bounds.begin, &bounds.end, &bounds.step};
  for (size_t i = 0; i < 3; ++i) {
    if (node.children[i + 1] == nullptr) continue;
    BATON_ASSIGN_OR_RETURN(const Value part, Evaluate(*node.children[i + 1]));
    if (part.Is(Kind::kNone)) continue;
    if (!part.IsIntegral()) return TemplateError("the bounds of a slice must be integers");
    *parts[i] = part.AsInt();
  }
  return GetSlice(budget_, object, bounds);
}

absl::StatusOr<Arguments> Interpreter::EvaluateArguments(const Expression& node) {
  Arguments arguments;
  for (size_t i = 0; i < node.names.size(); ++i) {
    BATON_ASSIGN_OR_RETURN(Value value, Evaluate(*node.children[i + 1]));
    if (node.names[i].empty()) {
      arguments.positional.push_back(std::move(value));
    } else {
      arguments.named.emplace_back(node.names[i], std::move(value));
    }
  }
  return arguments;
}

absl::StatusOr<Value> Interpreter::EvaluateFilter(const Expression& node) {
  BATON_ASSIGN_OR_RETURN(const Value operand, Evaluate(*node.children[0]));
  BATON_ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(node));
  return ApplyFilter(budget_, node.name, operand, arguments);
}

absl::StatusOr<Value> Interpreter::EvaluateTest(const Expression& node) {
  BATON_ASSIGN_OR_RETURN(const Value operand, Evaluate(*node.children[0]));
  BATON_ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(node));
  BATON_ASSIGN_OR_RETURN(const bool holds, ApplyTest(budget_, node.name, operand, arguments));
  return Value::Bool(holds);
}

absl::StatusOr<Value> Interpreter::EvaluateCall(const Expression& node) {
  BATON_ASSIGN_OR_RETURN(const Value callee, Evaluate(*node.children[0]));
  BATON_ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(node));
  if (callee.Is(Kind::kUndefined)) return UndefinedError(callee);
  if (!callee.Is(Kind::kCallable)) {
    return TemplateError(absl::StrCat("'", ToAbsl(callee.TypeName()), "' cannot be called"));
  }
  const CallableData& callable = callee.AsCallable();
  switch (callable.what) {
    case CallableData::What::kGlobal:
      return CallGlobal(callable.name, arguments);
    case CallableData::What::kMethod:
      return CallMethod(budget_, callable.receiver, callable.name, arguments);
    case CallableData::What::kMacro:
      return CallMacro(*callable.macro, arguments);
  }
  return Value();
}

absl::StatusOr<Value> Interpreter::CallGlobal(const std::string& name, const Arguments& arguments) {
  if (name == "range") return CallRange(arguments);
  if (name == "raise_exception") {
    BATON_ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind(name, arguments, {"message"}));
    BATON_ASSIGN_OR_RETURN(const std::string message, bound.String(0));
    return TemplateError(absl::StrCat("the template refuses this chat: ", message));
  }
  if (name == "strftime_now") {
    BATON_ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind(name, arguments, {"format"}));
    BATON_ASSIGN_OR_RETURN(const std::string format, bound.String(0));
    if (strftime_now_ == nullptr) return TemplateError("the template asks for the time, which is not given");
    BATON_ASSIGN_OR_RETURN(std::string text, strftime_now_(format));
    return MakeString(budget_, std::move(text));
  }
  // namespace and dict take names, and at most one dict before them.
  Entries entries;
  if (arguments.positional.size() > 1 || (!arguments.positional.empty() && !arguments.positional[0].Is(Kind::kDict))) {
    return TemplateError(absl::StrCat(name, " takes names and values"));
  }
  if (!arguments.positional.empty()) entries = arguments.positional[0].AsDict().entries;
  BATON_RETURN_IF_ERROR(budget_->Allocate(entries.size() * 2 * sizeof(Value)));
  for (const auto& [key, value] : arguments.named) entries.emplace_back(Value::String(key), value);
  BATON_ASSIGN_OR_RETURN(Value dict, MakeDict(budget_, std::move(entries)));
  if (name == "dict") return dict;
  namespaces_.push_back(std::make_unique<NamespaceData>());
  for (const auto& [key, value] : dict.AsDict().entries) {
    if (!key.Is(Kind::kString)) return TemplateError("the names of a namespace must be strings");
    namespaces_.back()->attributes.emplace_back(key.AsString(), value);
  }
  return Value::Namespace(namespaces_.back().get());
}

absl::StatusOr<Value> Interpreter::CallRange(const Arguments& arguments) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BoundArguments::Bind("range", arguments, {"start", "stop", "step"}));
  if (!bound.Has(0) || bound[0].Is(Kind::kNone)) return TemplateError("range takes integers");
  BATON_ASSIGN_OR_RETURN(int64_t start, bound.IntOr(0, 0));
  BATON_ASSIGN_OR_RETURN(int64_t stop, bound.IntOr(1, 0));
  BATON_ASSIGN_OR_RETURN(const int64_t step, bound.IntOr(2, 1));
  if (!bound.Has(1)) std::swap(start, stop);
  if (step == 0) return TemplateError("the step of range is zero");
  // Jinja's sandbox has the same bound.
  constexpr uint64_t kMaxRange = 100'000;
  std::vector<Value> items;
  if (step > 0 ? start < stop : start > stop) {
    const uint64_t distance = step > 0 ? static_cast<uint64_t>(stop) - static_cast<uint64_t>(start)
                                       : static_cast<uint64_t>(start) - static_cast<uint64_t>(stop);
    const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
    const uint64_t count = (distance - 1) / stride + 1;
    if (count > kMaxRange) return absl::ResourceExhaustedError("the template makes a range of more than 100000");
    BATON_RETURN_IF_ERROR(budget_->Allocate(count * sizeof(Value)));
    for (uint64_t i = 0; i < count; ++i) {
      items.push_back(Value::Int(static_cast<int64_t>(static_cast<uint64_t>(start) + i * static_cast<uint64_t>(step))));
    }
  }
  return MakeList(budget_, std::move(items));
}

absl::StatusOr<Value> Interpreter::CallMacro(const Statement& macro, const Arguments& arguments) {
  std::vector<std::string_view> parameters;
  for (const Target& target : macro.targets) parameters.push_back(target.name);
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind(macro.text, arguments, parameters));
  // A macro sees the template's own variables and its parameters, but not the variables of its caller.
  std::vector<Scope> callers;
  callers.assign(std::make_move_iterator(scopes_.begin() + 1), std::make_move_iterator(scopes_.end()));
  scopes_.resize(1);
  scopes_.emplace_back();
  absl::Status status;
  for (size_t i = 0; i < parameters.size() && status.ok(); ++i) {
    absl::StatusOr<Value> value = Value::MakeUndefined(parameters[i]);
    if (bound.Has(i)) {
      value = bound[i];
    } else if (macro.expressions[i] != nullptr) {
      value = Evaluate(*macro.expressions[i]);
    }
    status = value.status();
    if (status.ok()) scopes_.back()[std::string(parameters[i])] = *std::move(value);
  }
  absl::StatusOr<Value> text = status.ok() ? Capture(macro.bodies[0]) : absl::StatusOr<Value>(status);
  scopes_.resize(1);
  scopes_.insert(scopes_.end(), std::make_move_iterator(callers.begin()), std::make_move_iterator(callers.end()));
  return text;
}

}  // namespace baton::tokenizer::jinja
