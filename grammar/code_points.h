// Sets of Unicode characters, and the bytes that spell them.
#ifndef BATON_GRAMMAR_CODE_POINTS_H_
#define BATON_GRAMMAR_CODE_POINTS_H_

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "grammar/rule_graph.h"

namespace baton::grammar {

inline constexpr uint32_t kMaxCodePoint = 0x10FFFF;

// Ranges of code points. Surrogates may be in them, and are never spelled.
class CodePointSet {
 public:
  struct Range {
    uint32_t low;
    uint32_t high;
    friend bool operator==(const Range&, const Range&) = default;
  };

  CodePointSet() = default;
  explicit CodePointSet(uint32_t code_point) { Add(code_point, code_point); }
  CodePointSet(std::initializer_list<Range> ranges) : ranges_(ranges) { Normalize(); }

  void Add(uint32_t low, uint32_t high) { ranges_.push_back({low, high}); }
  void Add(const CodePointSet& other) { ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end()); }
  // Sorts and joins what was added. The others need it done.
  void Normalize();
  CodePointSet Complement() const;
  CodePointSet Intersect(const CodePointSet& other) const;

  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  std::vector<Range> ranges_;
};

// How characters are written in the output.
enum class Spelling : uint8_t {
  // As UTF-8.
  kPlain,
  // As in a JSON string, each in one way: UTF-8, but for those that must be escaped.
  kJson,
};

// Adds to the graph, between two of its states, the spelling of each character of the set.
void AddCharacters(const CodePointSet& set, Spelling spelling, int32_t from, int32_t to, RuleGraph* graph);

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_CODE_POINTS_H_
