#include "tests/ptx/findings.h"

#include <utility>

#include "tests/ptx/text.h"

namespace baton::ptx {

std::string_view FindingName(FindingKind kind) {
  switch (kind) {
    case FindingKind::kOutOfBounds:
      return "out of bounds";
    case FindingKind::kMisaligned:
      return "misaligned";
    case FindingKind::kUninitialized:
      return "uninitialized";
    case FindingKind::kSharedRace:
      return "race on shared memory";
    case FindingKind::kGlobalRace:
      return "race on global memory";
    case FindingKind::kDivergentBarrier:
      return "divergent barrier";
    case FindingKind::kAbsentLanes:
      return "absent lanes";
    case FindingKind::kWrongMask:
      return "wrong mask";
    case FindingKind::kUnwaitedCopy:
      return "copy without its wait";
    case FindingKind::kTrap:
      return "trap";
    case FindingKind::kTooLong:
      return "too many instructions";
    case FindingKind::kBadOperand:
      return "bad operand";
  }
  return "?";
}

std::string ToString(const Finding& finding) {
  auto triple = [](const std::array<uint32_t, 3>& at) { return Text("(", at[0], ",", at[1], ",", at[2], ")"); };
  return Text(finding.kernel, ":", finding.line, ": ", FindingName(finding.kind), ": ", finding.message, "; block ",
              triple(finding.block), " thread ", triple(finding.thread), ", ", finding.count,
              " times: ", finding.source);
}

void FindingList::Add(Finding finding) {
  const std::lock_guard lock(mutex_);
  for (Finding& known : findings_) {
    if (known.kind == finding.kind && known.line == finding.line && known.kernel == finding.kernel) {
      ++known.count;
      return;
    }
  }
  if (findings_.size() < kMostFindings) findings_.push_back(std::move(finding));
}

bool FindingList::Empty() const {
  const std::lock_guard lock(mutex_);
  return findings_.empty();
}

std::vector<Finding> FindingList::Take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(findings_, {});
}

std::vector<Finding> FindingList::See() const {
  const std::lock_guard lock(mutex_);
  return findings_;
}

}  // namespace baton::ptx
