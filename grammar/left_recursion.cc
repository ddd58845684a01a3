#include "grammar/left_recursion.h"

#include <algorithm>
#include <cstddef>

namespace baton::grammar {
namespace {

// A rule whose calls are being followed.
struct OpenRule {
  int32_t rule;
  size_t next_call = 0;
};

}  // namespace

int32_t LeftCalls::FindGrowingCircle() const {
  const std::vector<int32_t> component = FindComponents();
  for (size_t from = 0; from < calls_.size(); ++from) {
    for (const Call& call : calls_[from]) {
      if (!call.is_tail && component[from] == component[call.to]) return static_cast<int32_t>(from);
    }
  }
  return -1;
}

// Tarjan's algorithm, without recursion.
std::vector<int32_t> LeftCalls::FindComponents() const {
  const size_t count = calls_.size();
  std::vector<int32_t> component(count, -1);
  std::vector<int32_t> order(count, -1);
  std::vector<int32_t> low(count, 0);
  std::vector<int32_t> members;
  std::vector<OpenRule> open;
  int32_t next_order = 0;
  const auto enter = [&](int32_t rule) {
    order[rule] = low[rule] = next_order++;
    members.push_back(rule);
    open.push_back({rule});
  };
  for (size_t root = 0; root < count; ++root) {
    if (order[root] < 0) enter(static_cast<int32_t>(root));
    while (!open.empty()) {
      const int32_t rule = open.back().rule;
      if (open.back().next_call < calls_[rule].size()) {
        const int32_t to = calls_[rule][open.back().next_call++].to;
        if (order[to] < 0) {
          enter(to);
        } else if (component[to] < 0) {
          low[rule] = std::min(low[rule], order[to]);
        }
        continue;
      }
      open.pop_back();
      if (!open.empty()) low[open.back().rule] = std::min(low[open.back().rule], low[rule]);
      if (low[rule] != order[rule]) continue;
      int32_t member = -1;
      do {
        member = members.back();
        members.pop_back();
        component[member] = rule;
      } while (member != rule);
    }
  }
  return component;
}

}  // namespace baton::grammar
