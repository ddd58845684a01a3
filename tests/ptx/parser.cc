#include "absl/status/statusor.h"
#include "absl/strings/str_split.h"
#include "tests/ptx/cursor.h"
#include "tests/ptx/function_parser.h"
#include "tests/ptx/module.h"
#include "tests/ptx/text.h"
#include "tests/ptx/variable_parser.h"

namespace baton::ptx {
namespace {

class ModuleParser {
 public:
  explicit ModuleParser(std::vector<Token> tokens) : cursor_(std::move(tokens)) {}

  absl::StatusOr<Module> Run() {
    while (!cursor_.AtEnd()) {
      if (cursor_.Peek().kind == Token::Kind::kDirective) {
        Directive();
      } else if (!cursor_.Take(";")) {
        cursor_.Fail(Text("a directive is expected before '", cursor_.Peek().text, "'"));
      }
    }
    if (!cursor_.ok()) return cursor_.status();
    if (module_.version.empty()) return absl::InvalidArgumentError("PTX has no .version");
    return std::move(module_);
  }

 private:
  void Directive() {
    if (cursor_.Is(".file") || cursor_.Is(".loc") || cursor_.Is(".address_size")) return cursor_.SkipLine();
    const std::string_view word = cursor_.Next().text;
    if (word == ".version") {
      module_.version = std::string(cursor_.Next().text);
    } else if (word == ".target") {
      module_.target = cursor_.Word();
      while (cursor_.Take(",")) cursor_.Word();
    } else if (word == ".section") {
      cursor_.Next();
      cursor_.SkipBraces();
    } else if (word == ".pragma") {
      cursor_.Next();
      cursor_.Expect(";");
    } else if (word == ".extern") {
      external_ = true;
    } else if (word == ".entry" || word == ".func") {
      AddFunction(FunctionParser(cursor_, module_).Parse(word == ".entry"));
    } else if (const auto space = SpaceOf(word); space && *space != Space::kParam && *space != Space::kLocal) {
      AddVariables(*space);
    } else if (word != ".visible" && word != ".weak" && word != ".common") {
      cursor_.Fail(Text("unknown directive ", word));
    }
  }

  // A declaration gives way to its definition.
  void AddFunction(std::unique_ptr<Function> function) {
    external_ = false;
    if (!cursor_.ok()) return;
    for (auto& known : module_.functions) {
      if (known->name != function->name) continue;
      if (!known->external && !function->external) cursor_.Fail("a function is there twice", function->line);
      if (known->external) known = std::move(function);
      return;
    }
    module_.functions.push_back(std::move(function));
  }

  void AddVariables(Space space) {
    auto variable = ParseVariable(cursor_, space);
    variable->external = external_;
    external_ = false;
    cursor_.Expect(";");
    if (variable->external && space != Space::kShared) cursor_.Fail("a variable of another module", variable->line);
    if (variable->size == 0 && !variable->external) cursor_.Fail("a variable has no size", variable->line);
    module_.globals.push_back(variable.get());
    module_.variables.push_back(std::move(variable));
  }

  Cursor cursor_;
  Module module_;
  bool external_ = false;
};

}  // namespace

const Function* Module::Find(std::string_view name) const {
  for (const auto& function : functions) {
    if (function->name == name) return function.get();
  }
  return nullptr;
}

absl::StatusOr<Module> ParseModule(std::string_view text) {
  auto tokens = Tokens(text);
  if (!tokens.ok()) return tokens.status();
  auto module = ModuleParser(*std::move(tokens)).Run();
  if (module.ok()) module->lines = absl::StrSplit(std::string(text), '\n');
  return module;
}

}  // namespace baton::ptx
