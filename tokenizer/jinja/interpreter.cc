#include "tokenizer/jinja/interpreter.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "tokenizer/jinja/format.h"

namespace baton::tokenizer::jinja {
namespace {

// The innermost statement adds its line. The statements around it leave the message alone.
absl::Status WithLine(const absl::Status& status, int line) {
  static constexpr char kPrefix[] = "chat template, line ";
  if (absl::StartsWith(status.message(), kPrefix)) return status;
  return absl::Status(status.code(), absl::StrCat(kPrefix, line, ": ", status.message()));
}

}  // namespace

Interpreter::Interpreter(Budget* budget, StrftimeNow strftime_now)
    : budget_(budget), strftime_now_(std::move(strftime_now)), scopes_(1) {
  for (const std::string_view name : {"range", "namespace", "dict", "raise_exception", "strftime_now"}) {
    SetVariable(std::string(name), Value::Callable(std::make_shared<const CallableData>(CallableData{
                                       CallableData::What::kGlobal, std::string(name), Value(), nullptr})));
  }
}

void Interpreter::SetVariable(std::string name, Value value) { scopes_.front()[std::move(name)] = std::move(value); }

absl::StatusOr<std::string> Interpreter::Render(const Body& body) {
  std::string text;
  out_ = &text;
  absl::StatusOr<Flow> flow = ExecuteBody(body);
  out_ = nullptr;
  BATON_RETURN_IF_ERROR(flow.status());
  return text;
}

absl::StatusOr<Interpreter::Flow> Interpreter::ExecuteBody(const Body& body) {
  const Budget::Nested nested(budget_);
  BATON_RETURN_IF_ERROR(nested.status());
  for (const std::unique_ptr<Statement>& statement : body) {
    absl::StatusOr<Flow> flow = Execute(*statement);
    if (!flow.ok()) return WithLine(flow.status(), statement->line);
    if (*flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

absl::StatusOr<Interpreter::Flow> Interpreter::Execute(const Statement& statement) {
  BATON_RETURN_IF_ERROR(budget_->Step());
  switch (statement.kind) {
    case Statement::Kind::kText:
      BATON_RETURN_IF_ERROR(budget_->Scan(statement.text.size()));
      BATON_RETURN_IF_ERROR(budget_->CheckOutput(out_->size() + statement.text.size()));
      out_->append(statement.text);
      return Flow::kNext;
    case Statement::Kind::kPrint: {
      BATON_ASSIGN_OR_RETURN(const Value value, Evaluate(*statement.expressions[0]));
      BATON_RETURN_IF_ERROR(Write(value));
      return Flow::kNext;
    }
    case Statement::Kind::kIf:
      return ExecuteIf(statement);
    case Statement::Kind::kFor:
      return ExecuteFor(statement);
    case Statement::Kind::kSet:
    case Statement::Kind::kSetBlock:
      BATON_RETURN_IF_ERROR(ExecuteSet(statement));
      return Flow::kNext;
    case Statement::Kind::kMacro:
      scopes_.back()[statement.text] = Value::Callable(std::make_shared<const CallableData>(
          CallableData{CallableData::What::kMacro, statement.text, Value(), &statement}));
      return Flow::kNext;
    case Statement::Kind::kScope:
      return ExecuteBody(statement.bodies[0]);
    case Statement::Kind::kBreak:
      return Flow::kBreak;
    case Statement::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

absl::StatusOr<Interpreter::Flow> Interpreter::ExecuteIf(const Statement& statement) {
  for (size_t i = 0; i < statement.expressions.size(); ++i) {
    BATON_ASSIGN_OR_RETURN(const Value condition, Evaluate(*statement.expressions[i]));
    if (condition.Truthy()) return ExecuteBody(statement.bodies[i]);
  }
  if (statement.bodies.size() > statement.expressions.size()) return ExecuteBody(statement.bodies.back());
  return Flow::kNext;
}

absl::StatusOr<std::vector<Value>> Interpreter::LoopItems(const Statement& statement) {
  BATON_ASSIGN_OR_RETURN(const Value iterable, Evaluate(*statement.expressions[0]));
  BATON_ASSIGN_OR_RETURN(const Value list, ToList(budget_, iterable));
  BATON_RETURN_IF_ERROR(budget_->Allocate(list.AsList().items.size() * sizeof(Value)));
  if (statement.expressions[1] == nullptr) return list.AsList().items;
  std::vector<Value> kept;
  for (const Value& item : list.AsList().items) {
    scopes_.emplace_back();
    const absl::Status assigned = Assign(statement, item);
    absl::StatusOr<Value> wanted =
        assigned.ok() ? Evaluate(*statement.expressions[1]) : absl::StatusOr<Value>(assigned);
    scopes_.pop_back();
    BATON_RETURN_IF_ERROR(wanted.status());
    if (wanted->Truthy()) kept.push_back(item);
  }
  return kept;
}

absl::StatusOr<Interpreter::Flow> Interpreter::ExecuteFor(const Statement& statement) {
  BATON_ASSIGN_OR_RETURN(std::vector<Value> items, LoopItems(statement));
  if (items.empty()) {
    return statement.bodies.size() > 1 ? ExecuteBody(statement.bodies[1]) : Flow::kNext;
  }
  BATON_ASSIGN_OR_RETURN(const Value list, MakeList(budget_, std::move(items)));
  auto loop = std::make_shared<LoopData>(LoopData{list, 0});
  absl::StatusOr<Flow> flow = Flow::kNext;
  for (size_t i = 0; i < list.AsList().items.size() && flow.ok() && *flow != Flow::kBreak; ++i) {
    loop->index0 = static_cast<int64_t>(i);
    scopes_.emplace_back();
    scopes_.back()["loop"] = Value::Loop(loop);
    const absl::Status assigned = Assign(statement, list.AsList().items[i]);
    flow = assigned.ok() ? ExecuteBody(statement.bodies[0]) : absl::StatusOr<Flow>(assigned);
    scopes_.pop_back();
  }
  BATON_RETURN_IF_ERROR(flow.status());
  return Flow::kNext;
}

absl::Status Interpreter::ExecuteSet(const Statement& statement) {
  if (statement.kind == Statement::Kind::kSetBlock) {
    BATON_ASSIGN_OR_RETURN(const Value text, Capture(statement.bodies[0]));
    return Assign(statement, text);
  }
  BATON_ASSIGN_OR_RETURN(const Value value, Evaluate(*statement.expressions[0]));
  return Assign(statement, value);
}

absl::StatusOr<Value> Interpreter::Capture(const Body& body) {
  std::string text;
  std::string* const outer = std::exchange(out_, &text);
  scopes_.emplace_back();
  absl::StatusOr<Flow> flow = ExecuteBody(body);
  scopes_.pop_back();
  out_ = outer;
  BATON_RETURN_IF_ERROR(flow.status());
  return MakeString(budget_, std::move(text));
}

absl::Status Interpreter::Write(const Value& value) {
  if (value.Is(Kind::kString)) BATON_RETURN_IF_ERROR(budget_->CheckOutput(out_->size() + value.AsString().size()));
  BATON_RETURN_IF_ERROR(AppendText(budget_, value, out_));
  return budget_->CheckOutput(out_->size());
}

absl::Status Interpreter::Assign(const Statement& statement, const Value& value) {
  if (!statement.unpack) return AssignOne(statement.targets[0], value);
  BATON_ASSIGN_OR_RETURN(const Value list, ToList(budget_, value));
  const std::vector<Value>& items = list.AsList().items;
  if (items.size() != statement.targets.size()) {
    return TemplateError(
        absl::StrCat("there are ", items.size(), " values for ", statement.targets.size(), " variables"));
  }
  for (size_t i = 0; i < items.size(); ++i) BATON_RETURN_IF_ERROR(AssignOne(statement.targets[i], items[i]));
  return absl::OkStatus();
}

absl::Status Interpreter::AssignOne(const Target& target, Value value) {
  if (target.attribute.empty()) {
    scopes_.back()[target.name] = std::move(value);
    return absl::OkStatus();
  }
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto it = scope->find(target.name);
    if (it == scope->end()) continue;
    if (!it->second.Is(Kind::kNamespace)) break;
    NamespaceData* const ns = it->second.AsNamespace();
    for (auto& [name, old] : ns->attributes) {
      BATON_RETURN_IF_ERROR(budget_->Step());
      if (name != target.attribute) continue;
      old = std::move(value);
      return absl::OkStatus();
    }
    ns->attributes.emplace_back(target.attribute, std::move(value));
    return absl::OkStatus();
  }
  return TemplateError(absl::StrCat("'", target.name, "' is no namespace: its attributes cannot be set"));
}

}  // namespace baton::tokenizer::jinja
