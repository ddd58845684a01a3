#include "tests/ptx/function_parser.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "tests/ptx/text.h"
#include "tests/ptx/variable_parser.h"

namespace baton::ptx {
namespace {

Operand Make(Operand::Kind kind) {
  Operand operand;
  operand.kind = kind;
  return operand;
}

bool IsSpecial(std::string_view name) {
  static constexpr std::string_view kPrefixes[] = {"%tid",
                                                   "%ntid",
                                                   "%ctaid",
                                                   "%nctaid",
                                                   "%laneid",
                                                   "%warpid",
                                                   "%nwarpid",
                                                   "%lanemask_",
                                                   "%clock",
                                                   "%globaltimer",
                                                   "%smid",
                                                   "%nsmid",
                                                   "%gridid",
                                                   "%dynamic_smem_size",
                                                   "%total_smem_size"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes), [&](auto prefix) { return name.starts_with(prefix); });
}

}  // namespace

std::unique_ptr<Function> FunctionParser::Parse(bool entry) {
  function_ = std::make_unique<Function>();
  function_->entry = entry;
  function_->line = cursor_.Peek().line;
  scopes_.assign(1, {});
  if (cursor_.Is("(")) function_->results = Params();
  function_->name = cursor_.Word();
  if (cursor_.Is("(")) function_->params = Params();
  HeadDirectives();
  if (cursor_.Take(";")) {
    function_->external = true;
  } else {
    Body();
  }
  return std::move(function_);
}

std::vector<Variable*> FunctionParser::Params() {
  std::vector<Variable*> params;
  cursor_.Expect("(");
  while (cursor_.ok() && !cursor_.Take(")")) {
    if (cursor_.Is(".reg")) cursor_.Fail("parameters in registers are unknown");
    cursor_.Expect(".param");
    auto variable = ParseVariable(cursor_, Space::kParam);
    scopes_.back().variables[variable->name] = variable.get();
    params.push_back(variable.get());
    module_.variables.push_back(std::move(variable));
    if (!cursor_.Is(")")) cursor_.Expect(",");
  }
  return params;
}

void FunctionParser::HeadDirectives() {
  while (cursor_.Peek().kind == Token::Kind::kDirective) {
    const std::string_view word = cursor_.Next().text;
    if (word == ".noreturn") continue;
    const bool most = word == ".maxntid";
    const bool required = word == ".reqntid";
    const bool harmless = word == ".minnctapersm" || word == ".maxnctapersm" || word == ".maxnreg";
    if (!most && !required && !harmless) return cursor_.Fail(Text("unknown directive ", word));
    uint32_t size[3] = {1, 1, 1};
    int count = 0;
    do {
      size[std::min(count++, 2)] = static_cast<uint32_t>(cursor_.Integer());
    } while (cursor_.Take(","));
    if (most || required) function_->most_threads = size[0] * size[1] * size[2];
    if (required) std::copy(size, size + 3, function_->required);
  }
}

void FunctionParser::Body() {
  cursor_.Expect("{");
  size_t depth = 1;
  while (depth > 0 && !cursor_.AtEnd()) {
    const Token& token = cursor_.Peek();
    if (cursor_.Take("{")) {
      scopes_.emplace_back();
      ++depth;
    } else if (cursor_.Take("}")) {
      scopes_.pop_back();
      --depth;
      scopes_.resize(std::max<size_t>(scopes_.size(), 1));
    } else if (token.kind == Token::Kind::kDirective) {
      BodyDirective();
    } else if (token.kind == Token::Kind::kWord && cursor_.Is(":", 1)) {
      Label();
    } else if (!cursor_.Take(";")) {
      Instruction();
    }
  }
  if (depth > 0) cursor_.Fail("a function has no end");
}

void FunctionParser::BodyDirective() {
  if (cursor_.Is(".loc") || cursor_.Is(".file")) return cursor_.SkipLine();
  const std::string_view word = cursor_.Next().text;
  if (word == ".pragma") {
    cursor_.Next();
    return cursor_.Expect(";");
  }
  if (word == ".reg") return Registers();
  const auto space = SpaceOf(word);
  if (!space || *space == Space::kConst) return cursor_.Fail(Text("unknown directive ", word));
  auto variable = ParseVariable(cursor_, *space);
  cursor_.Expect(";");
  scopes_.back().variables[variable->name] = variable.get();
  if (*space == Space::kGlobal) module_.globals.push_back(variable.get());
  module_.variables.push_back(std::move(variable));
}

void FunctionParser::Registers() {
  const std::string_view word = cursor_.Next().text;
  const Type type = word.empty() ? Type::kNone : TypeOf(word.substr(1));
  if (type == Type::kNone) return cursor_.Fail(Text("unknown type of registers ", word));
  const int bytes = BytesOf(type);
  do {
    const std::string name = cursor_.Word();
    uint64_t count = 1;
    const bool range = cursor_.Take("<");
    if (range) {
      count = cursor_.Integer();
      cursor_.Expect(">");
      if (count > 1'000'000) return cursor_.Fail("too many registers");
    }
    const int first = static_cast<int>(function_->registers.size());
    if (range) {
      scopes_.back().ranges[name] = {first, static_cast<int>(count)};
    } else {
      scopes_.back().registers[name] = first;
    }
    for (uint64_t i = 0; i < count; ++i) {
      function_->registers.push_back({range ? Text(name, i) : name, bytes});
    }
  } while (cursor_.Take(","));
  cursor_.Expect(";");
}

void FunctionParser::Label() {
  const int line = cursor_.Peek().line;
  std::string name = cursor_.Word();
  cursor_.Expect(":");
  if (cursor_.Is(".branchtargets")) return BranchTargets(name);
  if (cursor_.Is(".callprototype") || cursor_.Is(".calltargets")) return cursor_.Fail("indirect calls are unknown");
  if (!function_->labels.emplace(name, function_->statements.size()).second) {
    cursor_.Fail(Text("label ", name, " is there twice"), line);
  }
}

void FunctionParser::BranchTargets(const std::string& label) {
  cursor_.Expect(".branchtargets");
  auto& targets = function_->branch_targets[label];
  do {
    targets.push_back(cursor_.Word());
  } while (cursor_.Take(","));
  cursor_.Expect(";");
}

void FunctionParser::Instruction() {
  Statement statement;
  statement.line = cursor_.Peek().line;
  if (cursor_.Take("@")) {
    statement.guard_negated = cursor_.Take("!");
    const std::string name = cursor_.Word();
    statement.guard = FindRegister(name);
    if (statement.guard < 0) return cursor_.Fail(Text("unknown predicate ", name));
  }
  const std::string opcode = cursor_.Word();
  statement.op = absl::StrSplit(opcode, '.');
  if (statement.op[0] == "call") {
    CallOperands(statement);
  } else {
    while (cursor_.ok() && !cursor_.Is(";")) {
      statement.operands.push_back(ParseOperand());
      if (!cursor_.Is(";")) cursor_.Expect(",");
    }
  }
  cursor_.Expect(";");
  function_->statements.push_back(std::move(statement));
}

// {results}, name, {arguments}
void FunctionParser::CallOperands(Statement& statement) {
  Operand results = Make(Operand::Kind::kVector);
  Operand arguments = Make(Operand::Kind::kVector);
  if (cursor_.Take("(")) {
    results = List(")");
    cursor_.Expect(",");
  }
  Operand name = ParseOperand();
  if (cursor_.Take(",")) {
    cursor_.Expect("(");
    arguments = List(")");
  }
  if (cursor_.Is(",")) cursor_.Fail("indirect calls are unknown");
  statement.operands = {std::move(results), std::move(name), std::move(arguments)};
}

Operand FunctionParser::List(std::string_view end) {
  Operand list = Make(Operand::Kind::kVector);
  while (cursor_.ok() && !cursor_.Take(end)) {
    list.parts.push_back(ParseOperand());
    if (!cursor_.Is(end)) cursor_.Expect(",");
  }
  return list;
}

Operand FunctionParser::ParseOperand() {
  if (cursor_.Take("{")) return List("}");
  if (cursor_.Take("[")) return Address();
  const bool negated = cursor_.Take("!");
  if (cursor_.Is("-") || cursor_.Peek().kind == Token::Kind::kNumber) return NumberOperand();
  Operand operand = NameOperand();
  operand.negated = negated;
  if (operand.kind == Operand::Kind::kVariable && cursor_.Take("+")) {
    operand.offset = static_cast<int64_t>(cursor_.Integer());
  }
  if (!cursor_.Take("|")) return operand;
  Operand pair = Make(Operand::Kind::kPair);
  pair.parts = {std::move(operand), NameOperand()};
  return pair;
}

Operand FunctionParser::Address() {
  Operand address = Make(Operand::Kind::kAddress);
  const bool number = cursor_.Peek().kind == Token::Kind::kNumber;
  address.parts.push_back(number ? NumberOperand() : NameOperand());
  // A minus sign is part of the number.
  if (cursor_.Take("+") || cursor_.Is("-")) address.offset = static_cast<int64_t>(cursor_.Integer());
  cursor_.Expect("]");
  return address;
}

Operand FunctionParser::NumberOperand() {
  const Number number = cursor_.TakeNumber();
  Operand operand = Make(number.kind == Number::Kind::kInteger   ? Operand::Kind::kInteger
                         : number.kind == Number::Kind::kFloat32 ? Operand::Kind::kFloat32
                                                                 : Operand::Kind::kFloat64);
  operand.bits = number.bits;
  return operand;
}

Operand FunctionParser::NameOperand() {
  Operand operand = Make(Operand::Kind::kName);
  operand.name = cursor_.Word();
  if (operand.name == "_") {
    operand.kind = Operand::Kind::kSink;
  } else if (const int index = FindRegister(operand.name); index >= 0) {
    operand.kind = Operand::Kind::kRegister;
    operand.index = index;
  } else if (operand.name == "WARP_SZ") {
    operand.kind = Operand::Kind::kInteger;
    operand.bits = 32;
  } else if (IsSpecial(operand.name)) {
    operand.kind = Operand::Kind::kSpecial;
    operand.name.erase(0, 1);
  } else if (const Variable* variable = FindVariable(operand.name); variable != nullptr) {
    operand.kind = Operand::Kind::kVariable;
    operand.variable = variable;
  } else if (operand.name.starts_with('%')) {
    cursor_.Fail(Text("unknown register ", operand.name));
  }
  return operand;
}

int FunctionParser::FindRegister(const std::string& name) const {
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  int number = 0;
  const bool numbered = digits < name.size() && absl::SimpleAtoi(name.substr(digits), &number);
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const auto found = scope->registers.find(name); found != scope->registers.end()) return found->second;
    if (!numbered) continue;
    const auto range = scope->ranges.find(name.substr(0, digits));
    if (range != scope->ranges.end() && number < range->second.second) return range->second.first + number;
  }
  return -1;
}

const Variable* FunctionParser::FindVariable(const std::string& name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const auto found = scope->variables.find(name); found != scope->variables.end()) return found->second;
  }
  for (const Variable* variable : module_.globals) {
    if (variable->name == name) return variable;
  }
  return nullptr;
}

}  // namespace baton::ptx
