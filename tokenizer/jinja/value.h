// The values of a template, with Python's meaning: what Jinja computes on. Immutable but for namespaces, as in the
// sandbox of transformers.
#ifndef BATON_TOKENIZER_JINJA_VALUE_H_
#define BATON_TOKENIZER_JINJA_VALUE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "tokenizer/jinja/budget.h"

namespace baton::tokenizer::jinja {

class Value;
struct Statement;

struct Undefined {
  std::string name;  // for messages; may be empty
};
struct None {
  friend bool operator==(const None&, const None&) { return true; }
};
struct ListData;
struct DictData;
struct NamespaceData;
struct LoopData;
struct CallableData;

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,  // and tuples
  kDict,
  kNamespace,
  kLoop,
  kCallable,
};

// Cheap to copy, because big contents are shared.
class Value {
 public:
  Value() : data_(std::make_shared<const Undefined>()) {}
  static Value MakeUndefined(std::string_view name);
  static Value MakeNone() { return Value(None()); }
  static Value Bool(bool b) { return Value(b); }
  static Value Int(int64_t i) { return Value(i); }
  static Value Float(double d) { return Value(d); }
  // Charges no budget. For the template's own text and the caller's input.
  static Value String(std::string s) { return Value(std::make_shared<const std::string>(std::move(s))); }
  static Value Callable(std::shared_ptr<const CallableData> c) { return Value(std::move(c)); }
  static Value Loop(std::shared_ptr<LoopData> loop) { return Value(std::move(loop)); }
  // The interpreter owns namespaces: they can refer to each other, and a count of references would never end.
  static Value Namespace(NamespaceData* ns) { return Value(ns); }
  static Value List(std::shared_ptr<const ListData> list) { return Value(std::move(list)); }
  static Value Dict(std::shared_ptr<const DictData> dict) { return Value(std::move(dict)); }

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool Is(Kind k) const { return kind() == k; }
  bool IsNumber() const { return Is(Kind::kBool) || Is(Kind::kInt) || Is(Kind::kFloat); }
  // Whether it is an int or a bool, which is an int in Python.
  bool IsIntegral() const { return Is(Kind::kBool) || Is(Kind::kInt); }

  // Each of these requires its kind.
  const std::string& undefined_name() const { return std::get<0>(data_)->name; }
  bool AsBool() const { return std::get<bool>(data_); }
  int64_t AsInt() const { return Is(Kind::kBool) ? static_cast<int64_t>(AsBool()) : std::get<int64_t>(data_); }
  double AsDouble() const { return Is(Kind::kFloat) ? std::get<double>(data_) : static_cast<double>(AsInt()); }
  const std::string& AsString() const { return *std::get<std::shared_ptr<const std::string>>(data_); }
  const ListData& AsList() const { return *std::get<std::shared_ptr<const ListData>>(data_); }
  const DictData& AsDict() const { return *std::get<std::shared_ptr<const DictData>>(data_); }
  NamespaceData* AsNamespace() const { return std::get<NamespaceData*>(data_); }
  const LoopData& AsLoop() const { return *std::get<std::shared_ptr<LoopData>>(data_); }
  const CallableData& AsCallable() const { return *std::get<std::shared_ptr<const CallableData>>(data_); }

  // How deep containers nest in this value; 0 if it is not a container.
  int depth() const;
  // The truth of the value in Python.
  bool Truthy() const;
  // Python's type name, for messages.
  std::string_view TypeName() const;
  // Whether both are the same object: with shared contents, or equal plain values of the same kind.
  bool SameObject(const Value& other) const { return data_ == other.data_; }

 private:
  using Data =
      std::variant<std::shared_ptr<const Undefined>, None, bool, int64_t, double, std::shared_ptr<const std::string>,
                   std::shared_ptr<const ListData>, std::shared_ptr<const DictData>, NamespaceData*,
                   std::shared_ptr<LoopData>, std::shared_ptr<const CallableData>>;
  template <typename T>
  explicit Value(T data) : data_(std::move(data)) {}

  Data data_;
};

struct ListData {
  std::vector<Value> items;
  bool is_tuple = false;
  int depth = 1;
};

// Entries in order of insertion. Lookup is linear, since the dicts of chats have few keys and each step is charged.
struct DictData {
  std::vector<std::pair<Value, Value>> entries;
  int depth = 1;
};

struct NamespaceData {
  std::vector<std::pair<std::string, Value>> attributes;
};

// The variable `loop`.
struct LoopData {
  Value items;  // a list
  int64_t index0 = 0;
};

struct CallableData {
  enum class What : uint8_t { kGlobal, kMethod, kMacro };
  What what;
  std::string name;
  Value receiver;                    // kMethod
  const Statement* macro = nullptr;  // kMacro; part of the template, which outlives the render
};

// A key-value list that keeps the order of insertion.
using Entries = std::vector<std::pair<Value, Value>>;

// These functions charge the budget. RESOURCE_EXHAUSTED says which limit was reached.
absl::StatusOr<Value> MakeString(Budget* budget, std::string text);
absl::StatusOr<Value> MakeList(Budget* budget, std::vector<Value> items, bool is_tuple = false);
// A later entry replaces the value of an earlier one with an equal key.
absl::StatusOr<Value> MakeDict(Budget* budget, Entries entries);

// Python's ==.
absl::StatusOr<bool> Equal(Budget* budget, const Value& a, const Value& b);
// Negative, zero or positive if a is less than, equal to or greater than b. An error if Python does not order them.
absl::StatusOr<int> Compare(Budget* budget, const Value& a, const Value& b);
// Null if there is no such key.
absl::StatusOr<const Value*> FindKey(Budget* budget, const DictData& dict, const Value& key);
// The items of a list, the characters of a string, or the keys of a dict. Nothing for undefined, an error for others.
absl::StatusOr<Value> ToList(Budget* budget, const Value& value);

// The error of a template that does something wrong.
absl::Status TemplateError(std::string_view message);
absl::Status UndefinedError(const Value& value);

}  // namespace baton::tokenizer::jinja

#endif  // BATON_TOKENIZER_JINJA_VALUE_H_
