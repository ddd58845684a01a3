#include "tokenizer/stop_matcher.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/limits.h"
#include "common/utf8.h"

namespace baton::tokenizer {

absl::StatusOr<StopMatcher> StopMatcher::Create(const std::vector<std::string>& stops) {
  if (stops.size() > static_cast<size_t>(kMaxStopStrings)) {
    return absl::InvalidArgumentError(
        absl::StrCat("there are ", stops.size(), " stop strings; at most ", kMaxStopStrings, " are allowed"));
  }
  StopMatcher matcher;
  matcher.nodes_.emplace_back();
  for (size_t i = 0; i < stops.size(); ++i) {
    const std::string& stop = stops[i];
    if (stop.empty()) return absl::InvalidArgumentError(absl::StrCat("stop string ", i, " is empty"));
    if (stop.size() > kMaxStopStringBytes) {
      return absl::InvalidArgumentError(absl::StrCat("stop string ", i, " has ", stop.size(), " bytes; at most ",
                                                     kMaxStopStringBytes, " are allowed"));
    }
    if (!IsValidUtf8(stop)) return absl::InvalidArgumentError(absl::StrCat("stop string ", i, " is not valid UTF-8"));
    matcher.Insert(stop, static_cast<int>(i));
  }
  matcher.LinkFailures();
  return matcher;
}

void StopMatcher::Insert(std::string_view stop, int index) {
  int32_t node = 0;
  for (const char c : stop) {
    const auto [it, inserted] =
        nodes_[node].next.try_emplace(static_cast<uint8_t>(c), static_cast<int32_t>(nodes_.size()));
    const int32_t child = it->second;
    if (inserted) {
      const int32_t depth_bytes = nodes_[node].depth_bytes + 1;
      nodes_.emplace_back();
      nodes_.back().depth_bytes = depth_bytes;
    }
    node = child;
  }
  if (nodes_[node].stop_index < 0) nodes_[node].stop_index = index;
  stop_bytes_.push_back(stop.size());
}

void StopMatcher::LinkFailures() {
  std::vector<int32_t> queue = {0};
  for (size_t i = 0; i < queue.size(); ++i) {
    const int32_t node = queue[i];
    for (const auto& [byte, child] : nodes_[node].next) {
      // The order is breadth first, so every suffix of the node's parent is linked already.
      nodes_[child].fail = node == 0 ? 0 : Step(nodes_[node].fail, byte);
      if (nodes_[child].stop_index < 0) nodes_[child].stop_index = nodes_[nodes_[child].fail].stop_index;
      queue.push_back(child);
    }
  }
}

int32_t StopMatcher::Step(int32_t node, uint8_t byte) const {
  while (true) {
    const auto it = nodes_[node].next.find(byte);
    if (it != nodes_[node].next.end()) return it->second;
    if (node == 0) return 0;
    node = nodes_[node].fail;
  }
}

StopMatcher::Output StopMatcher::Push(std::string_view piece) {
  BATON_CHECK(!stopped_) << "text after a stop";
  Output output;
  output.text.swap(held_);
  for (const char c : piece) {
    state_ = Step(state_, static_cast<uint8_t>(c));
    output.text.push_back(c);
    const int32_t stop_index = nodes_[state_].stop_index;
    if (stop_index < 0) continue;
    output.text.resize(output.text.size() - stop_bytes_[stop_index]);
    output.stopped = stopped_ = true;
    output.stop_index = stop_index;
    return output;
  }
  // The automaton's state is the longest end of the text that begins a stop string. Only that part must be held back.
  const size_t held_bytes = nodes_[state_].depth_bytes;
  held_ = output.text.substr(output.text.size() - held_bytes);
  output.text.resize(output.text.size() - held_bytes);
  return output;
}

std::string StopMatcher::Flush() {
  state_ = 0;
  return std::exchange(held_, std::string());
}

}  // namespace baton::tokenizer
