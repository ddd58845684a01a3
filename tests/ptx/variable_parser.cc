#include "tests/ptx/variable_parser.h"

#include <bit>
#include <cstring>
#include <utility>

#include "tests/ptx/text.h"

namespace baton::ptx {
namespace {

// Reads the values of an initializer into the bytes of `variable`, one element after another.
class Initializer {
 public:
  Initializer(Cursor& cursor, Variable& variable, Type type) : cursor_(cursor), variable_(variable), type_(type) {}

  void Parse() {
    variable_.bytes.resize(variable_.size);
    Values();
  }

 private:
  void Values() {
    if (!cursor_.Take("{")) return Value();
    while (cursor_.ok() && !cursor_.Take("}")) {
      Values();
      if (!cursor_.Is("}")) cursor_.Expect(",");
    }
  }

  void Value() {
    const uint64_t bytes = static_cast<uint64_t>(BytesOf(type_));
    if (at_ + bytes > variable_.size) return cursor_.Fail("an initializer is longer than its variable");
    if (cursor_.Peek().kind == Token::Kind::kWord) {
      Address();
    } else {
      const uint64_t bits = Bits(cursor_.TakeNumber());
      std::memcpy(variable_.bytes.data() + at_, &bits, bytes);
    }
    at_ += bytes;
  }

  void Address() {
    const bool generic = cursor_.Take("generic");
    if (generic) cursor_.Expect("(");
    Variable::Address address = {at_, cursor_.Word(), 0};
    if (generic) cursor_.Expect(")");
    if (cursor_.Take("+")) address.addend = static_cast<int64_t>(cursor_.Integer());
    if (BytesOf(type_) != 8) cursor_.Fail("an address is held in other than 8 bytes");
    variable_.addresses.push_back(std::move(address));
  }

  uint64_t Bits(Number number) const {
    if (type_ == Type::kF64 && number.kind == Number::Kind::kFloat32) {
      return std::bit_cast<uint64_t>(double{std::bit_cast<float>(static_cast<uint32_t>(number.bits))});
    }
    if (type_ == Type::kF32 && number.kind == Number::Kind::kFloat64) {
      return std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(number.bits)));
    }
    return number.bits;
  }

  Cursor& cursor_;
  Variable& variable_;
  const Type type_;
  uint64_t at_ = 0;
};

}  // namespace

std::optional<Space> SpaceOf(std::string_view directive) {
  static constexpr std::pair<std::string_view, Space> kSpaces[] = {{".global", Space::kGlobal},
                                                                   {".const", Space::kConst},
                                                                   {".shared", Space::kShared},
                                                                   {".local", Space::kLocal},
                                                                   {".param", Space::kParam}};
  for (const auto& [name, space] : kSpaces) {
    if (name == directive) return space;
  }
  return std::nullopt;
}

std::unique_ptr<Variable> ParseVariable(Cursor& cursor, Space space) {
  auto variable = std::make_unique<Variable>();
  variable->space = space;
  variable->line = cursor.Peek().line;
  uint64_t vector = 1;
  uint64_t align = 0;
  Type type = Type::kNone;
  while (cursor.ok() && cursor.Peek().kind == Token::Kind::kDirective) {
    const std::string_view word = cursor.Next().text;
    if (word == ".align") {
      align = cursor.Integer();
    } else if (word == ".v2" || word == ".v4") {
      vector = word == ".v2" ? 2 : 4;
    } else if (word == ".ptr" || (type != Type::kNone && SpaceOf(word))) {
      // What a parameter points to does not matter here; the alignment that follows is the pointee's.
      if (cursor.Take(".align")) cursor.Integer();
    } else if (word == ".attribute") {
      cursor.Fail("attributes are unknown");
    } else if (TypeOf(word.substr(1)) != Type::kNone && type == Type::kNone) {
      type = TypeOf(word.substr(1));
    } else {
      cursor.Fail(Text("unknown directive ", word, " in a variable"));
    }
  }
  if (BytesOf(type) == 0) cursor.Fail("a variable has no type");
  variable->name = cursor.Word();
  variable->size = static_cast<uint64_t>(BytesOf(type)) * vector;
  variable->align = align != 0 ? align : variable->size;
  if (std::popcount(variable->align) != 1) cursor.Fail("an alignment is not a power of 2");
  while (cursor.Take("[")) {
    variable->size *= cursor.Is("]") ? 0 : cursor.Integer();
    cursor.Expect("]");
    if (variable->size > (uint64_t{1} << 32)) cursor.Fail("a variable is too large");
  }
  if (cursor.Take("=") && cursor.ok()) Initializer(cursor, *variable, type).Parse();
  return variable;
}

}  // namespace baton::ptx
