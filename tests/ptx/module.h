// A module of PTX as it is written: variables, functions, statements. ParseModule makes it from text.
#ifndef BATON_TESTS_PTX_MODULE_H_
#define BATON_TESTS_PTX_MODULE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/ptx/types.h"

namespace baton::ptx {

enum class Space : uint8_t { kGeneric, kGlobal, kConst, kShared, kLocal, kParam };

struct Variable {
  std::string name;
  Space space = Space::kGlobal;
  uint64_t align = 1;
  // 0 for an array without a bound, which is the dynamic shared memory.
  uint64_t size = 0;
  bool external = false;
  // As long as `size`, or empty: then zeros.
  std::vector<uint8_t> bytes;
  // Addresses of variables that the initializer holds, 8 bytes each at `offset`.
  struct Address {
    uint64_t offset;
    std::string name;
    int64_t addend;
  };
  std::vector<Address> addresses;
  int line = 0;
};

struct Operand {
  enum class Kind : uint8_t {
    kRegister,  // `index` in the function's registers
    kSpecial,   // `name` without its percent sign: tid.x
    kInteger,   // `bits`
    kFloat32,   // `bits`, from 0f...
    kFloat64,   // `bits`, from 0d... or a decimal point
    kVariable,  // `variable` and `offset`
    kName,      // of a function, a label or a table of labels
    kAddress,   // [parts[0] + offset]
    kVector,    // {parts...}
    kPair,      // parts[0] | parts[1]
    kSink,      // _
  };
  Kind kind;
  bool negated = false;
  int index = 0;
  uint64_t bits = 0;
  int64_t offset = 0;
  std::string name;
  const Variable* variable = nullptr;
  std::vector<Operand> parts;
};

struct Statement {
  int line = 0;
  // Register of the guard, -1 for none.
  int guard = -1;
  bool guard_negated = false;
  // The opcode, divided at its dots: {"ld", "global", "v4", "f32"}.
  std::vector<std::string> op;
  std::vector<Operand> operands;
};

struct Register {
  std::string name;
  // 0 for a predicate.
  int bytes = 0;
};

struct Function {
  std::string name;
  bool entry = false;
  // Declared only.
  bool external = false;
  int line = 0;
  std::vector<Variable*> params;
  std::vector<Variable*> results;
  std::vector<Register> registers;
  std::vector<Statement> statements;
  // Index of the statement that follows the label.
  std::map<std::string, size_t> labels;
  std::map<std::string, std::vector<std::string>> branch_targets;
  // From .maxntid and .reqntid; 0 where absent.
  uint32_t most_threads = 0;
  uint32_t required[3] = {};
};

struct Module {
  std::string version;
  std::string target;
  // Owners of every variable, in all scopes.
  std::vector<std::unique_ptr<Variable>> variables;
  std::vector<Variable*> globals;
  std::vector<std::unique_ptr<Function>> functions;
  // The text's lines, for reports.
  std::vector<std::string> lines;

  const Function* Find(std::string_view name) const;
};

// INVALID_ARGUMENT names the line.
absl::StatusOr<Module> ParseModule(std::string_view text);

}  // namespace baton::ptx

#endif  // BATON_TESTS_PTX_MODULE_H_
