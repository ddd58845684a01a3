// From statements to instructions.
#ifndef BATON_TESTS_PTX_DECODER_H_
#define BATON_TESTS_PTX_DECODER_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/ptx/module.h"
#include "tests/ptx/program.h"

namespace baton::ptx {

// Addresses of .global and .const variables.
using Addresses = std::map<const Variable*, uint64_t>;

// The program of an entry. INVALID_ARGUMENT names the line of what is not known.
absl::StatusOr<KernelProgram> DecodeKernel(const Module& module, const Function& entry, const Addresses& addresses,
                                           std::shared_ptr<const std::vector<std::string>> lines);

class KernelBuilder;

// Makes one instruction. Functions of the table below consume modifiers and operands; a modifier that is left over is
// an error, as is a wrong number of operands.
class InstructionDecoder {
 public:
  InstructionDecoder(KernelBuilder& builder, const Statement& statement);

  const std::string& opcode() const { return statement_.op[0]; }
  const std::vector<Operand>& operands() const { return statement_.operands; }
  void Fail(std::string_view what);

  // Modifiers. A modifier that comes twice, as in cvt.f32.f32, is taken once a call.
  bool Take(std::string_view modifier);
  // kNone where the next modifier that is a type is missing, which is an error unless `optional`.
  Type TakeType(bool optional = false);
  // rn, rz, rm, rp; `otherwise` where none is there.
  Rounding TakeRounding(Rounding otherwise = Rounding::kNearest);
  void TakeFlag(std::string_view modifier, Flag flag);
  // Hints of caches, which change nothing here.
  void TakeCacheHints();

  // Operands.
  void Count(size_t least, size_t most = 0);
  void From(size_t operand, Type type) { FromOperand(operands()[operand], type); }
  void FromOperand(const Operand& operand, Type type);
  void To(size_t operand) { ToOperand(operands()[operand]); }
  void ToOperand(const Operand& operand);
  void PredicateFrom(size_t operand) { PredicateFromOperand(operands()[operand]); }
  void PredicateFromOperand(const Operand& operand);
  void PredicateTo(const Operand& operand);
  // All parts of a vector, or the operand itself.
  static std::vector<Operand> Parts(const Operand& operand);
  // [register + offset]; the address is the first source. `space` may become local for parameters of calls.
  void Address(size_t operand, Space space);
  // Member mask.
  void Member(size_t operand);
  void WholeWarp();
  // An operand that must be a number.
  uint64_t Immediate(size_t operand);
  bool IsPredicate(const Operand& operand) const;
  int RegisterBytes(const Operand& operand) const;

  void Target(size_t operand);
  void Table(size_t operand);
  void CallSite();
  bool InEntry() const;

  // Modifiers that are left.
  std::vector<std::string> modifiers;
  Instruction in;

 private:
  KernelBuilder& builder_;
  const Statement& statement_;
};

using Decode = void (*)(InstructionDecoder& decoder);
using DecodeTable = std::map<std::string_view, Decode>;

void AddIntegerOperations(DecodeTable& table);
void AddBitOperations(DecodeTable& table);
void AddFloatOperations(DecodeTable& table);
void AddHalfOperations(DecodeTable& table);
void AddMixedOperations(DecodeTable& table);
void AddConversions(DecodeTable& table);
void AddComparisons(DecodeTable& table);
void AddMoves(DecodeTable& table);
void AddMemoryOperations(DecodeTable& table);
void AddAtomicOperations(DecodeTable& table);
void AddAsyncCopies(DecodeTable& table);
void AddWarpOperations(DecodeTable& table);
void AddMatrixOperations(DecodeTable& table);
void AddControlOperations(DecodeTable& table);

}  // namespace baton::ptx

#endif  // BATON_TESTS_PTX_DECODER_H_
