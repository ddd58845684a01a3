#include "tests/ptx/decoder.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "tests/ptx/kernel_builder.h"
#include "tests/ptx/text.h"

namespace baton::ptx {
namespace {

uint64_t ConstantBits(const Operand& operand, Type type) {
  uint64_t bits = operand.bits;
  const bool double_type = type == Type::kF64;
  if (operand.kind == Operand::Kind::kFloat64 && type == Type::kF32) {
    bits = std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
  } else if (operand.kind == Operand::Kind::kFloat32 && double_type) {
    bits = std::bit_cast<uint64_t>(double{std::bit_cast<float>(static_cast<uint32_t>(bits))});
  }
  const int bytes = BytesOf(type);
  return bytes == 0 || bytes == 8 ? bits : bits & ((uint64_t{1} << (8 * bytes)) - 1);
}

uint64_t MaskOf(int bytes) { return bytes == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * bytes)) - 1; }

}  // namespace

InstructionDecoder::InstructionDecoder(KernelBuilder& builder, const Statement& statement)
    : modifiers(statement.op.begin() + 1, statement.op.end()), builder_(builder), statement_(statement) {
  in.line = statement.line;
}

void InstructionDecoder::Fail(std::string_view what) { builder_.Fail(statement_.line, what); }

bool InstructionDecoder::Take(std::string_view modifier) {
  const auto found = std::find(modifiers.begin(), modifiers.end(), modifier);
  if (found == modifiers.end()) return false;
  modifiers.erase(found);
  return true;
}

Type InstructionDecoder::TakeType(bool optional) {
  for (auto at = modifiers.begin(); at != modifiers.end(); ++at) {
    const Type type = TypeOf(*at);
    if (type == Type::kNone) continue;
    modifiers.erase(at);
    return type;
  }
  if (!optional) Fail("a type is missing");
  return Type::kNone;
}

Rounding InstructionDecoder::TakeRounding(Rounding otherwise) {
  static constexpr std::pair<std::string_view, Rounding> kModes[] = {{"rn", Rounding::kNearest},
                                                                     {"rz", Rounding::kZero},
                                                                     {"rm", Rounding::kDown},
                                                                     {"rp", Rounding::kUp},
                                                                     {"rna", Rounding::kNearestAway}};
  in.rounding = otherwise;
  for (const auto& [name, mode] : kModes) {
    if (Take(name)) in.rounding = mode;
  }
  return in.rounding;
}

void InstructionDecoder::TakeFlag(std::string_view modifier, Flag flag) {
  if (Take(modifier)) in.flags |= flag;
}

void InstructionDecoder::TakeCacheHints() {
  for (std::string_view hint : {"ca",
                                "cg",
                                "cs",
                                "lu",
                                "cv",
                                "wb",
                                "wt",
                                "nc",
                                "weak",
                                "L2::64B",
                                "L2::128B",
                                "L2::256B",
                                "L1::no_allocate",
                                "L1::evict_first",
                                "L1::evict_last",
                                "L1::evict_normal",
                                "L1::evict_unchanged",
                                "L2::evict_first",
                                "L2::evict_last",
                                "L2::evict_normal"}) {
    Take(hint);
  }
}

void InstructionDecoder::Count(size_t least, size_t most) {
  const size_t count = operands().size();
  if (count >= least && count <= std::max(least, most)) return;
  Fail(Text(count, " operands are not what this instruction has"));
  // So that the caller can go on.
  static const auto* const kNothing = new Operand{Operand::Kind::kInteger};
  auto& all = const_cast<Statement&>(statement_).operands;
  all.resize(std::max(all.size(), std::max(least, most)), *kNothing);
}

std::vector<Operand> InstructionDecoder::Parts(const Operand& operand) {
  return operand.kind == Operand::Kind::kVector ? operand.parts : std::vector<Operand>{operand};
}

bool InstructionDecoder::IsPredicate(const Operand& operand) const {
  return operand.kind == Operand::Kind::kRegister && builder_.function().registers[operand.index].bytes == 0;
}

int InstructionDecoder::RegisterBytes(const Operand& operand) const {
  return operand.kind == Operand::Kind::kRegister ? builder_.function().registers[operand.index].bytes : 0;
}

void InstructionDecoder::FromOperand(const Operand& operand, Type type) {
  if (in.sources >= std::size(in.from)) return Fail("too many sources");
  Slot slot = 0;
  switch (operand.kind) {
    case Operand::Kind::kRegister:
      if (IsPredicate(operand)) return Fail("a predicate where a number is expected");
      slot = builder_.RegisterSlot(operand.index);
      break;
    case Operand::Kind::kSpecial:
      if (operand.name.starts_with("clock") || operand.name.starts_with("globaltimer")) {
        return Fail("a clock that is not moved");
      }
      slot = builder_.Special(operand.name);
      break;
    case Operand::Kind::kInteger:
    case Operand::Kind::kFloat32:
    case Operand::Kind::kFloat64:
      slot = builder_.Constant(ConstantBits(operand, type));
      break;
    case Operand::Kind::kVariable:
      slot = builder_.Constant(builder_.Address(*operand.variable) + static_cast<uint64_t>(operand.offset));
      break;
    default:
      return Fail(Text("an operand is not a value ", operand.name));
  }
  if (operand.negated) Fail("a number is negated");
  in.from[in.sources++] = slot;
}

void InstructionDecoder::ToOperand(const Operand& operand) {
  if (in.destinations >= std::size(in.to)) return Fail("too many destinations");
  if (operand.kind == Operand::Kind::kSink) {
    in.to[in.destinations++] = builder_.SinkSlot();
    return;
  }
  if (operand.kind != Operand::Kind::kRegister || IsPredicate(operand)) return Fail("a destination is not a register");
  in.to_mask = MaskOf(RegisterBytes(operand));
  in.to[in.destinations++] = builder_.RegisterSlot(operand.index);
}

void InstructionDecoder::PredicateFromOperand(const Operand& operand) {
  if (in.predicate_sources >= std::size(in.predicate_from)) return Fail("too many predicates");
  Predicate predicate;
  if (operand.kind == Operand::Kind::kInteger) {
    predicate.slot = operand.bits != 0 ? kTrue : kFalse;
  } else if (IsPredicate(operand)) {
    predicate.slot = builder_.RegisterSlot(operand.index);
  } else {
    return Fail("a predicate is expected");
  }
  predicate.flip = operand.negated ? kAllLanes : 0;
  in.predicate_from[in.predicate_sources++] = predicate;
}

void InstructionDecoder::PredicateTo(const Operand& operand) {
  if (operand.kind == Operand::Kind::kSink) {
    in.predicate_to[in.predicate_destinations++] = builder_.SinkPredicate();
    return;
  }
  if (!IsPredicate(operand) || in.predicate_destinations >= std::size(in.predicate_to)) {
    return Fail("a predicate is expected as destination");
  }
  in.predicate_to[in.predicate_destinations++] = builder_.RegisterSlot(operand.index);
}

void InstructionDecoder::Address(size_t operand, Space space) {
  const Operand& address = operands()[operand];
  if (address.kind != Operand::Kind::kAddress) return Fail("an address in brackets is expected");
  const Operand& base = address.parts[0];
  in.space = space;
  in.offset = address.offset;
  if (RegisterBytes(base) == 4) in.flags |= kAddress32;
  if (space == Space::kParam) {
    // Parameters of an entry are the launch's; those of other functions and of calls lie in the lane's own memory.
    const bool of_entry = base.kind == Operand::Kind::kVariable ? builder_.IsEntryParam(*base.variable) : InEntry();
    if (!of_entry) in.space = Space::kLocal;
  }
  if (in.sources != 0) return Fail("an address comes late");
  FromOperand(base, Type::kB64);
}

void InstructionDecoder::Member(size_t operand) {
  const uint8_t before = in.sources;
  From(operand, Type::kB32);
  in.member = in.from[before];
  in.flow = Flow::kCollective;
}

void InstructionDecoder::WholeWarp() {
  in.member = builder_.Constant(kAllLanes);
  in.flow = Flow::kCollective;
  in.flags |= kAligned;
}

uint64_t InstructionDecoder::Immediate(size_t operand) {
  if (operands()[operand].kind != Operand::Kind::kInteger) Fail("an operand must be a number");
  return operands()[operand].bits;
}

bool InstructionDecoder::InEntry() const { return builder_.function().entry; }

void InstructionDecoder::Target(size_t operand) {
  in.target = builder_.Label(operands()[operand].name, statement_.line);
}

void InstructionDecoder::Table(size_t operand) {
  const auto& tables = builder_.function().branch_targets;
  const auto found = tables.find(operands()[operand].name);
  if (found == tables.end()) return Fail("unknown table of branches");
  std::vector<int32_t> targets;
  for (const std::string& label : found->second) targets.push_back(builder_.Label(label, statement_.line));
  in.target = static_cast<int32_t>(builder_.program().tables.size());
  builder_.program().tables.push_back(std::move(targets));
}

void InstructionDecoder::CallSite() {
  const Function* callee = builder_.module().Find(operands()[1].name);
  if (callee == nullptr || callee->external) return Fail(Text("no such function: ", operands()[1].name));
  const auto& results = operands()[0].parts;
  const auto& arguments = operands()[2].parts;
  if (results.size() != callee->results.size() || arguments.size() != callee->params.size()) {
    return Fail("a call has other parameters than the function");
  }
  struct CallSite site;
  auto place = [&](const Operand& operand) -> const Variable* {
    if (operand.kind != Operand::Kind::kVariable || operand.variable->space != Space::kParam) Fail("not a parameter");
    return operand.variable;
  };
  auto add = [&](std::vector<Copy>& copies, const Variable* from, const Variable* to) {
    if (from == nullptr || to == nullptr) return;
    const auto at = [&](const Variable& one) { return static_cast<uint32_t>(builder_.Address(one) - kLocalBase); };
    copies.push_back({at(*from), at(*to), static_cast<uint32_t>(std::min(from->size, to->size))});
  };
  for (size_t i = 0; i < arguments.size(); ++i) add(site.arguments, place(arguments[i]), callee->params[i]);
  for (size_t i = 0; i < results.size(); ++i) add(site.results, callee->results[i], place(results[i]));
  site.target = builder_.EntryOf(*callee);
  in.target = static_cast<int32_t>(builder_.program().calls.size());
  builder_.program().calls.push_back(std::move(site));
}

}  // namespace baton::ptx
