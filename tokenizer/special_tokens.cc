#include "tokenizer/special_tokens.h"

#include "common/check.h"

namespace baton::tokenizer {
namespace {

uint64_t EdgeKey(int32_t node, char byte) { return static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(byte); }

}  // namespace

void SpecialTokenMatcher::Add(std::string_view text, int32_t id) {
  BATON_CHECK(!text.empty());
  begins_[static_cast<uint8_t>(text[0])] = true;
  int32_t node = 0;
  for (const char c : text) {
    const auto [it, inserted] = next_.try_emplace(EdgeKey(node, c), static_cast<int32_t>(id_.size()));
    if (inserted) id_.push_back(-1);
    node = it->second;
  }
  id_[node] = id;
}

SpecialTokenMatcher::Match SpecialTokenMatcher::MatchAt(std::string_view text, size_t begin) const {
  Match match = {.begin = begin, .end = begin};
  int32_t node = 0;
  for (size_t i = begin; i < text.size(); ++i) {
    const auto it = next_.find(EdgeKey(node, text[i]));
    if (it == next_.end()) return match;
    node = it->second;
    if (id_[node] >= 0) match = {begin, i + 1, id_[node]};
  }
  match.cut = true;
  return match;
}

SpecialTokenMatcher::Match SpecialTokenMatcher::Find(std::string_view text, size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!MayBeginWith(text[begin])) continue;
    if (const Match match = MatchAt(text, begin); match.id >= 0) return match;
  }
  return {};
}

}  // namespace baton::tokenizer
