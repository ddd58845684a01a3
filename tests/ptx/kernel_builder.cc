#include "tests/ptx/kernel_builder.h"

#include <algorithm>
#include <utility>

#include "tests/ptx/text.h"

namespace baton::ptx {
namespace {

constexpr uint64_t kRedBytes = 16;

const DecodeTable& Table() {
  static const auto* const kTable = [] {
    auto* all = new DecodeTable;
    AddIntegerOperations(*all);
    AddBitOperations(*all);
    AddFloatOperations(*all);
    AddHalfOperations(*all);
    AddMixedOperations(*all);
    AddConversions(*all);
    AddComparisons(*all);
    AddMoves(*all);
    AddMemoryOperations(*all);
    AddAtomicOperations(*all);
    AddAsyncCopies(*all);
    AddWarpOperations(*all);
    AddMatrixOperations(*all);
    AddControlOperations(*all);
    return all;
  }();
  return *kTable;
}

uint64_t RoundUp(uint64_t value, uint64_t align) { return (value + align - 1) / align * align; }

}  // namespace

void KernelBuilder::Fail(int line, std::string_view what) {
  if (!status_.ok()) return;
  std::string source;
  if (line >= 1 && static_cast<size_t>(line) <= module_.lines.size()) source = module_.lines[line - 1];
  status_ = absl::InvalidArgumentError(Text("PTX line ", line, ": ", what, ": ", source));
}

absl::StatusOr<KernelProgram> KernelBuilder::Build(const Function& entry) {
  program_.name = entry.name;
  program_.most_threads = entry.most_threads;
  std::copy(entry.required, entry.required + 3, program_.required);
  LayOutParams(entry);
  std::vector<const Function*> path;
  Collect(entry, path);
  int32_t start = 0;
  for (const Function* function : order_) {
    AssignSlots(*function);
    starts_[function] = start;
    // A return ends the code, in case the text has none.
    start += static_cast<int32_t>(function->statements.size()) + 1;
  }
  LayOutShared();
  for (const Function* function : order_) Decode(*function);
  program_.entry = starts_[&entry];
  if (!status_.ok()) return status_;
  return std::move(program_);
}

void KernelBuilder::LayOutParams(const Function& entry) {
  uint64_t at = 0;
  for (const Variable* param : entry.params) {
    at = RoundUp(at, param->align);
    params_[param] = at;
    program_.params.emplace_back(static_cast<uint32_t>(at), static_cast<uint32_t>(param->size));
    at += param->size;
  }
  program_.param_bytes = static_cast<uint32_t>(at);
}

// The static variables that the code names come first. All names of the dynamic part stand for one address behind them.
void KernelBuilder::LayOutShared() {
  uint64_t align = 0;
  auto visit = [&](auto& self, const Operand& operand) -> void {
    for (const Operand& part : operand.parts) self(self, part);
    if (operand.variable == nullptr || operand.variable->space != Space::kShared) return;
    if (operand.variable->size != 0) {
      Address(*operand.variable);
    } else {
      align = std::max(align, operand.variable->align);
    }
  };
  for (const Function* function : order_) {
    for (const Statement& statement : function->statements) {
      for (const Operand& operand : statement.operands) visit(visit, operand);
    }
  }
  std::vector<uint8_t>& layout = program_.shared_layout;
  dynamic_base_ = kSharedBase + layout.size();
  if (align == 0) return;
  dynamic_base_ = RoundUp(dynamic_base_ + (layout.empty() ? 0 : kRedBytes), align);
  layout.resize(dynamic_base_ - kSharedBase, kRedZone);
}

void KernelBuilder::Collect(const Function& function, std::vector<const Function*>& path) {
  if (std::find(path.begin(), path.end(), &function) != path.end()) return Fail(function.line, "recursion is unknown");
  if (std::find(order_.begin(), order_.end(), &function) != order_.end()) return;
  path.push_back(&function);
  for (const Statement& statement : function.statements) {
    if (statement.op[0] != "call") continue;
    const Function* callee = module_.Find(statement.operands[1].name);
    // __assertfail is built in.
    if (callee != nullptr && !callee->external) Collect(*callee, path);
  }
  path.pop_back();
  order_.push_back(&function);
}

void KernelBuilder::AssignSlots(const Function& function) {
  std::vector<Slot>& slots = slots_[&function];
  for (const Register& one : function.registers) {
    if (one.bytes == 0) {
      slots.push_back(program_.predicates++);
    } else {
      slots.push_back(program_.registers++);
      program_.register_names.push_back(one.name);
    }
  }
}

void KernelBuilder::Decode(const Function& function) {
  function_ = &function;
  for (const Statement& statement : function.statements) {
    DecodeStatement(statement);
    if (!status_.ok()) return;
  }
  Instruction end;
  end.flow = Flow::kReturn;
  end.line = function.statements.empty() ? function.line : function.statements.back().line;
  program_.code.push_back(end);
}

void KernelBuilder::DecodeStatement(const Statement& statement) {
  const auto found = Table().find(statement.op[0]);
  if (found == Table().end()) return Fail(statement.line, Text("unknown instruction ", statement.op[0]));
  InstructionDecoder decoder(*this, statement);
  if (statement.guard >= 0) {
    decoder.in.guard = {RegisterSlot(statement.guard), statement.guard_negated ? kAllLanes : 0};
  }
  found->second(decoder);
  if (!decoder.modifiers.empty()) decoder.Fail(Text("unknown modifier .", decoder.modifiers[0]));
  program_.code.push_back(decoder.in);
}

Slot KernelBuilder::Constant(uint64_t value) {
  const auto [at, added] = constants_.emplace(value, ~static_cast<Slot>(constants_.size()));
  if (added) program_.constants.insert(program_.constants.end(), kLanes, value);
  return at->second;
}

Slot KernelBuilder::Special(const std::string& name) {
  const auto [at, added] = specials_.emplace(name, program_.registers);
  if (added) {
    ++program_.registers;
    program_.register_names.push_back(name);
    program_.specials.emplace_back(name, at->second);
  }
  return at->second;
}

Slot KernelBuilder::SinkSlot() {
  if (sink_ < 0) {
    sink_ = program_.registers++;
    program_.register_names.emplace_back("_");
  }
  return sink_;
}

Slot KernelBuilder::SinkPredicate() {
  if (sink_predicate_ < 0) sink_predicate_ = program_.predicates++;
  return sink_predicate_;
}

uint64_t KernelBuilder::Place(std::vector<uint8_t>& layout, uint64_t base, const Variable& variable) {
  const uint64_t at = RoundUp(base + layout.size() + (layout.empty() ? 0 : kRedBytes), variable.align);
  layout.resize(at - base, kRedZone);
  layout.resize(at - base + variable.size, kUnwritten);
  return at;
}

uint64_t KernelBuilder::Address(const Variable& variable) {
  if (const auto param = params_.find(&variable); param != params_.end()) return param->second;
  if (const auto global = addresses_.find(&variable); global != addresses_.end()) return global->second;
  if (const auto known = places_.find(&variable); known != places_.end()) return known->second;
  uint64_t at = 0;
  if (variable.space == Space::kShared && variable.size == 0) {
    at = dynamic_base_;
  } else if (variable.space == Space::kShared) {
    at = Place(program_.shared_layout, kSharedBase, variable);
    program_.static_shared = static_cast<uint32_t>(RoundUp(program_.static_shared, variable.align) + variable.size);
  } else {
    at = Place(program_.local_layout, kLocalBase, variable);
    program_.local_bytes += static_cast<uint32_t>(variable.size);
  }
  places_[&variable] = at;
  return at;
}

int32_t KernelBuilder::Label(const std::string& name, int line) {
  const auto found = function_->labels.find(name);
  if (found == function_->labels.end()) {
    Fail(line, Text("unknown label ", name));
    return 0;
  }
  return starts_[function_] + static_cast<int32_t>(found->second);
}

absl::StatusOr<KernelProgram> DecodeKernel(const Module& module, const Function& entry, const Addresses& addresses,
                                           std::shared_ptr<const std::vector<std::string>> lines) {
  auto program = KernelBuilder(module, addresses).Build(entry);
  if (program.ok()) program->lines = std::move(lines);
  return program;
}

}  // namespace baton::ptx
