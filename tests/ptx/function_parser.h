// Functions: heads, bodies, statements, operands.
#ifndef BATON_TESTS_PTX_FUNCTION_PARSER_H_
#define BATON_TESTS_PTX_FUNCTION_PARSER_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/ptx/cursor.h"
#include "tests/ptx/module.h"

namespace baton::ptx {

class FunctionParser {
 public:
  // `globals` are the variables of the module so far. New variables go to `module`.
  FunctionParser(Cursor& cursor, Module& module) : cursor_(cursor), module_(module) {}

  // After `.entry` or `.func`.
  std::unique_ptr<Function> Parse(bool entry);

 private:
  struct Scope {
    std::map<std::string, int> registers;
    // A name<count> declares name0, name1, ...
    std::map<std::string, std::pair<int, int>> ranges;
    std::map<std::string, const Variable*> variables;
  };

  std::vector<Variable*> Params();
  void HeadDirectives();
  void Body();
  void BodyDirective();
  void Registers();
  void BranchTargets(const std::string& label);
  void Label();
  void Instruction();
  void CallOperands(Statement& statement);
  Operand List(std::string_view end);
  Operand ParseOperand();
  Operand Address();
  Operand NumberOperand();
  Operand NameOperand();
  // The register of that name, -1 for none.
  int FindRegister(const std::string& name) const;
  const Variable* FindVariable(const std::string& name) const;

  Cursor& cursor_;
  Module& module_;
  std::unique_ptr<Function> function_;
  std::vector<Scope> scopes_;
};

}  // namespace baton::ptx

#endif  // BATON_TESTS_PTX_FUNCTION_PARSER_H_
