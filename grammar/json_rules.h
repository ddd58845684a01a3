// The parts of JSON that every schema needs. White space is one space, which may be left out, behind a colon or a
// comma.
#ifndef BATON_GRAMMAR_JSON_RULES_H_
#define BATON_GRAMMAR_JSON_RULES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "grammar/json_value.h"
#include "grammar/rule_graph.h"

namespace baton::grammar {

// Rules are added to the graph when they are first asked for. The graph must outlive it. One thread.
class JsonRules {
 public:
  explicit JsonRules(RuleGraph* graph) : graph_(*graph) {}

  // What follows the quote that begins a string, up to and with the one that ends it. Its characters may be spelled in
  // every way that JSON has. With lengths in characters; max_length -1: any.
  int32_t StringRest(int64_t min_length = 0, int64_t max_length = -1);

  // These add to the graph what stands between `from` and the state that they return.
  int32_t AddComma(int32_t from) { return graph_.Optional(graph_.Text(from, ","), ' '); }
  int32_t AddColon(int32_t from) { return graph_.Optional(graph_.Text(from, ":"), ' '); }
  // Any number. It has an exponent only behind one digit before the point, and then one that a double holds, so that
  // readers who make it a double can.
  int32_t AddNumber(bool is_integer, int32_t from);
  // Exactly this value, with its members in their order.
  int32_t AddValue(const JsonValue& value, int32_t from);

 private:
  // One character of a string.
  int32_t CharacterRule();
  void AddCharacter(int32_t from, int32_t to);
  void AddEscape(int32_t from, int32_t to);
  int32_t AddHexDigits(int count, int32_t from);
  void AddDigit(int32_t from, int32_t to) { graph_.AddBytes(from, '0', '9', to); }
  int32_t AddFraction(int32_t from, int32_t to);
  void AddExponent(int32_t from, int32_t to);

  RuleGraph& graph_;
  int32_t character_ = -1;
  absl::flat_hash_map<std::pair<int64_t, int64_t>, int32_t> strings_;  // By least and largest length.
};

// A number as the output spells it where a schema names it: without an exponent, unless that makes it long.
std::string SpellNumber(std::string_view number);

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_JSON_RULES_H_
