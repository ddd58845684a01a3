#include "grammar/code_points.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "common/utf8.h"
#include "grammar/json_spelling.h"

namespace baton::grammar {
namespace {

constexpr uint32_t kFirstSurrogate = 0xD800;
constexpr uint32_t kLastSurrogate = 0xDFFF;

// Adds ranges of UTF-8 that end in one state. Characters whose last bytes are alike share the states of these.
class Utf8Adder {
 public:
  Utf8Adder(int32_t from, int32_t to, RuleGraph* graph) : from_(from), to_(to), graph_(*graph) {}

  void Add(uint32_t low, uint32_t high) {
    if (low > high) return;
    if (low <= kLastSurrogate && high >= kFirstSurrogate) {
      Add(low, kFirstSurrogate - 1);
      Add(kLastSurrogate + 1, high);
      return;
    }
    // Characters of different lengths.
    for (const uint32_t last : {0x7Fu, 0x7FFu, 0xFFFFu}) {
      if (low <= last && high > last) {
        Add(low, last);
        Add(last + 1, high);
        return;
      }
    }
    AddOfOneLength(low, high);
  }

 private:
  // Splits the range until each of its bytes may be chosen by itself.
  void AddOfOneLength(uint32_t low, uint32_t high) {
    for (int bits = 6; bits <= 18 && high > 0x7F; bits += 6) {
      const uint32_t tail = (uint32_t{1} << bits) - 1;
      if ((low & ~tail) == (high & ~tail)) break;
      if ((low & tail) != 0) {
        AddOfOneLength(low, low | tail);
        AddOfOneLength((low | tail) + 1, high);
        return;
      }
      if ((high & tail) != tail) {
        AddOfOneLength(low, (high & ~tail) - 1);
        AddOfOneLength(high & ~tail, high);
        return;
      }
    }
    std::string first;
    std::string last;
    AppendUtf8(low, &first);
    AppendUtf8(high, &last);
    graph_.AddBytes(from_, ByteOf(first[0]), ByteOf(last[0]), TailState(first.substr(1), last.substr(1)));
  }

  // The state from which the rest of a character leads to the end.
  int32_t TailState(const std::string& first, const std::string& last) {
    if (first.empty()) return to_;
    const auto [it, is_new] = tails_.try_emplace(first + last, -1);
    if (!is_new) return it->second;
    const int32_t next = TailState(first.substr(1), last.substr(1));
    const int32_t state = graph_.AddState();
    graph_.AddBytes(state, ByteOf(first[0]), ByteOf(last[0]), next);
    tails_[first + last] = state;
    return state;
  }

  static uint8_t ByteOf(char c) { return static_cast<uint8_t>(c); }

  const int32_t from_;
  const int32_t to_;
  RuleGraph& graph_;
  absl::flat_hash_map<std::string, int32_t> tails_;
};

}  // namespace

void CodePointSet::Normalize() {
  std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) { return a.low < b.low; });
  std::vector<Range> joined;
  for (const Range& range : ranges_) {
    if (!joined.empty() && range.low <= joined.back().high + 1) {
      joined.back().high = std::max(joined.back().high, range.high);
    } else {
      joined.push_back(range);
    }
  }
  ranges_ = std::move(joined);
}

CodePointSet CodePointSet::Complement() const {
  CodePointSet complement;
  uint32_t next = 0;
  for (const Range& range : ranges_) {
    if (range.low > next) complement.Add(next, range.low - 1);
    next = range.high + 1;
  }
  if (next <= kMaxCodePoint) complement.Add(next, kMaxCodePoint);
  return complement;
}

CodePointSet CodePointSet::Intersect(const CodePointSet& other) const {
  CodePointSet both;
  auto a = ranges_.begin();
  auto b = other.ranges_.begin();
  while (a != ranges_.end() && b != other.ranges_.end()) {
    const uint32_t low = std::max(a->low, b->low);
    const uint32_t high = std::min(a->high, b->high);
    if (low <= high) both.Add(low, high);
    (a->high < b->high ? a : b)++;
  }
  return both;
}

void AddCharacters(const CodePointSet& set, Spelling spelling, int32_t from, int32_t to, RuleGraph* graph) {
  static const CodePointSet* const kEscaped = new CodePointSet({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}});
  Utf8Adder adder(from, to, graph);
  if (spelling == Spelling::kPlain) {
    for (const auto& range : set.ranges()) adder.Add(range.low, range.high);
    return;
  }
  const CodePointSet unescaped = set.Intersect(kEscaped->Complement());
  for (const auto& range : unescaped.ranges()) adder.Add(range.low, range.high);
  const CodePointSet escaped = set.Intersect(*kEscaped);
  for (const auto& range : escaped.ranges()) {
    for (uint32_t character = range.low; character <= range.high; ++character) {
      graph->AddEmpty(graph->Text(from, JsonEscape(character)), to);
    }
  }
}

}  // namespace baton::grammar
