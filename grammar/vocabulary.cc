#include "grammar/vocabulary.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/memory/memory.h"

namespace baton::grammar {

std::shared_ptr<const Vocabulary> Vocabulary::Create(std::vector<std::string> bytes, std::vector<int32_t> eos_ids) {
  return absl::WrapUnique(new Vocabulary(std::move(bytes), std::move(eos_ids)));
}

Vocabulary::Vocabulary(std::vector<std::string> bytes, std::vector<int32_t> eos_ids) : eos_ids_(std::move(eos_ids)) {
  const auto count = static_cast<int32_t>(bytes.size());
  std::erase_if(eos_ids_, [count](int32_t id) { return id < 0 || id >= count; });
  std::sort(eos_ids_.begin(), eos_ids_.end());
  eos_ids_.erase(std::unique(eos_ids_.begin(), eos_ids_.end()), eos_ids_.end());
  for (const int32_t id : eos_ids_) bytes[id].clear();
  begin_.push_back(0);
  for (const std::string& token : bytes) {
    if (token.size() <= std::numeric_limits<uint16_t>::max()) {
      text_ += token;
      max_token_bytes_ = std::max(max_token_bytes_, token.size());
    }
    begin_.push_back(static_cast<uint32_t>(text_.size()));
  }
  BuildTree();
  SortByLength();
}

void Vocabulary::BuildTree() {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < size(); ++id) {
    if (!bytes(id).empty()) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end(), [this](int32_t a, int32_t b) {
    const int order = bytes(a).compare(bytes(b));
    return order != 0 ? order < 0 : a < b;
  });
  next_alike_.assign(size(), -1);
  std::vector<int32_t> path;  // The nodes of the token before.
  const auto close_below = [this, &path](size_t depth) {
    for (; path.size() > depth; path.pop_back()) {
      const Node& closed = nodes_[path.back()];
      nodes_[path.back()].skip = static_cast<int32_t>(nodes_.size());
      if (path.size() < 2) continue;
      uint8_t& below = nodes_[path[path.size() - 2]].below;
      below = std::max(below, static_cast<uint8_t>(std::min(closed.below + 1, 255)));
    }
  };
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::string_view token = bytes(ids[i]);
    const std::string_view before = i == 0 ? std::string_view() : bytes(ids[i - 1]);
    if (i > 0 && token == before) {
      next_alike_[ids[i - 1]] = ids[i];
      continue;
    }
    const auto [end, unused] = std::mismatch(before.begin(), before.end(), token.begin(), token.end());
    close_below(end - before.begin());
    for (size_t depth = path.size(); depth < token.size(); ++depth) {
      path.push_back(static_cast<int32_t>(nodes_.size()));
      nodes_.push_back({-1, -1, static_cast<uint16_t>(depth + 1), static_cast<uint8_t>(token[depth]), 0});
    }
    nodes_[path.back()].token = ids[i];
  }
  close_below(0);
  nodes_.shrink_to_fit();
}

void Vocabulary::SortByLength() {
  for (std::vector<uint64_t>& words : up_to_) words.assign((static_cast<size_t>(size()) + 63) / 64, 0);
  for (int32_t id = 0; id < size(); ++id) {
    if (bytes(id).empty()) continue;
    for (size_t most = bytes(id).size(); most < up_to_.size(); ++most)
      up_to_[most][id / 64] |= uint64_t{1} << (id % 64);
  }
}

bool Vocabulary::is_eos(int32_t id) const { return std::binary_search(eos_ids_.begin(), eos_ids_.end(), id); }

size_t Vocabulary::MemoryBytes() const {
  return text_.capacity() + begin_.capacity() * sizeof(uint32_t) + nodes_.capacity() * sizeof(Node) +
         next_alike_.capacity() * sizeof(int32_t) + up_to_.size() * up_to_[0].capacity() * sizeof(uint64_t);
}

}  // namespace baton::grammar
