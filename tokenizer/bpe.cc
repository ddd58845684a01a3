#include "tokenizer/bpe.h"

#include <algorithm>
#include <queue>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "common/utf8.h"

namespace baton::tokenizer {
namespace {

// GPT-2's table: printable Latin-1 bytes stand for themselves, the others for U+0100 and up, in order.
struct ByteAlphabet {
  std::array<uint32_t, 256> byte_to_char{};
  absl::flat_hash_map<uint32_t, uint8_t> char_to_byte;

  ByteAlphabet() {
    uint32_t next_char = 0x100;
    for (uint32_t b = 0; b < 256; ++b) {
      const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      byte_to_char[b] = printable ? b : next_char++;
      char_to_byte[byte_to_char[b]] = static_cast<uint8_t>(b);
    }
  }
};

const ByteAlphabet& Alphabet() {
  static const ByteAlphabet* const kAlphabet = new ByteAlphabet();
  return *kAlphabet;
}

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

std::string ByteLevelToBytes(std::string_view written) {
  if (!IsValidUtf8(written)) return std::string(written);
  std::string bytes;
  bytes.reserve(written.size());
  for (size_t offset = 0; offset < written.size();) {
    const auto it = Alphabet().char_to_byte.find(NextCodePoint(written, &offset));
    if (it == Alphabet().char_to_byte.end()) return std::string(written);
    bytes.push_back(static_cast<char>(it->second));
  }
  return bytes;
}

std::string BytesToByteLevel(std::string_view bytes) {
  std::string written;
  for (const char c : bytes) AppendUtf8(Alphabet().byte_to_char[static_cast<uint8_t>(c)], &written);
  return written;
}

void MergeRules::Add(const Rule& rule) { rules_[PairKey(rule.left, rule.right)] = {next_rank_++, rule.merged}; }

absl::Status MergeRules::AddAll(const Vocabulary& vocab, const std::vector<std::string>& merges) {
  Reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string& merge = merges[rank];
    const size_t space = merge.find(' ');
    if (space == std::string::npos || space == 0 || space + 1 == merge.size()) {
      return absl::InvalidArgumentError(absl::StrCat("tokenizer merge ", rank, " is not of the form \"left right\""));
    }
    const std::string left = merge.substr(0, space);
    const std::string right = merge.substr(space + 1);
    const auto left_it = vocab.find(left);
    const auto right_it = vocab.find(right);
    const auto merged_it = vocab.find(left + right);
    if (left_it == vocab.end() || right_it == vocab.end() || merged_it == vocab.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokenizer merge ", rank, " names a token that is not in the vocabulary"));
    }
    Add({left_it->second, right_it->second, merged_it->second});
  }
  return absl::OkStatus();
}

// An element of a doubly linked list in a vector. Neighbours are indices, -1 at the ends. A symbol that was merged into
// its left neighbour has id -1.
struct MergeRules::Symbol {
  int32_t id;
  int32_t prev;
  int32_t next;
};

const MergeRules::Merged* MergeRules::Find(int32_t left, int32_t right) const {
  const auto it = rules_.find(PairKey(left, right));
  return it == rules_.end() ? nullptr : &it->second;
}

void MergeRules::MergeSymbols(std::vector<Symbol>* symbols) const {
  struct Candidate {
    int32_t rank;
    int32_t left;  // index of the symbol
    int32_t merged_id;
    bool operator<(const Candidate& other) const {  // std::priority_queue gives the greatest first
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };
  std::vector<Symbol>& list = *symbols;
  std::vector<Candidate> initial;
  for (size_t i = 0; i + 1 < list.size(); ++i) {
    if (const Merged* rule = Find(list[i].id, list[i + 1].id)) {
      initial.push_back({rule->rank, static_cast<int32_t>(i), rule->id});
    }
  }
  std::priority_queue<Candidate> queue(std::less<Candidate>(), std::move(initial));
  const auto offer = [&](int32_t left) {
    if (left < 0 || list[left].next < 0) return;
    if (const Merged* rule = Find(list[left].id, list[list[left].next].id)) {
      queue.push({rule->rank, left, rule->id});
    }
  };
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = list[best.left];
    if (left.id < 0 || left.next < 0) continue;
    // If the neighbours have changed since the candidate was queued, another candidate stands for them.
    const Merged* rule = Find(left.id, list[left.next].id);
    if (rule == nullptr || rule->id != best.merged_id) continue;
    Symbol& right = list[left.next];
    left.id = best.merged_id;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) list[left.next].prev = best.left;
    offer(left.prev);
    offer(best.left);
  }
}

void MergeRules::Merge(absl::Span<const int32_t> symbols, std::vector<int32_t>* ids) const {
  if (symbols.empty()) return;
  std::vector<Symbol> list;
  list.reserve(symbols.size());
  for (const int32_t id : symbols) {
    const auto index = static_cast<int32_t>(list.size());
    list.push_back({id, index - 1, index + 1});
  }
  list.back().next = -1;
  MergeSymbols(&list);
  for (int32_t i = 0; i >= 0; i = list[i].next) ids->push_back(list[i].id);
}

absl::Status BpeMerger::Build(const Vocabulary& vocab, const std::vector<std::string>& merges) {
  for (int b = 0; b < 256; ++b) {
    const auto it = vocab.find(BytesToByteLevel(std::string(1, static_cast<char>(b))));
    byte_ids_[b] = it == vocab.end() ? -1 : it->second;
  }
  return rules_.AddAll(vocab, merges);
}

void BpeMerger::Merge(std::string_view word, std::vector<int32_t>* ids) const {
  if (!whole_words_.empty()) {
    const auto it = whole_words_.find(ToAbsl(word));
    if (it != whole_words_.end()) {
      ids->push_back(it->second);
      return;
    }
  }
  std::vector<int32_t> symbols;
  symbols.reserve(word.size());
  for (const char c : word) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(c)];
    if (id >= 0) symbols.push_back(id);
  }
  rules_.Merge(symbols, ids);
}

}  // namespace baton::tokenizer
