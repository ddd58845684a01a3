#include "simulator/journal_disk.h"

#include <algorithm>

namespace baton::simulator {

void JournalDisk::Fill(TimeNs until, size_t least_bytes) {
  full_until_ = until;
  least_bytes_ = least_bytes;
}

bool JournalDisk::HasResult(const JobId& id) const {
  return std::any_of(rows_.begin(), rows_.end(),
                     [&](const router::JournalRow& row) { return row.id == id && !row.result.empty(); });
}

absl::Status JournalDisk::Refuse() {
  last_refused_ = sim_.queue.Now();
  return absl::ResourceExhaustedError("the disk is full");
}

absl::StatusOr<std::vector<router::JournalRow>> JournalDisk::TakeUp() {
  const auto runs = [](const router::JournalRow& row) { return row.result.empty(); };
  if (!HasRoom(0) && std::any_of(rows_.begin(), rows_.end(), runs)) return Refuse();
  for (router::JournalRow& row : rows_) {
    if (runs(row)) ++row.runs;
  }
  return rows_;
}

absl::Status JournalDisk::Apply(absl::Span<const router::JournalChange> changes) {
  const bool fit = std::all_of(changes.begin(), changes.end(),
                               [this](const router::JournalChange& change) { return HasRoom(change.bytes.size()); });
  if (!fit) return Refuse();
  for (const router::JournalChange& change : changes) ApplyOne(change);
  return absl::OkStatus();
}

void JournalDisk::ApplyOne(const router::JournalChange& change) {
  using Kind = router::JournalChange::Kind;
  const auto row = std::find_if(rows_.begin(), rows_.end(), [&](const auto& each) { return each.id == change.id; });
  if (row == rows_.end()) {
    if (change.kind == Kind::kRequest) rows_.push_back({.id = change.id, .request = change.bytes});
    return;
  }
  switch (change.kind) {
    case Kind::kRequest:
      break;
    case Kind::kFingerprint:
      row->fingerprint = change.bytes;
      break;
    case Kind::kResult:
      row->result = change.bytes;
      row->ended_unix_ms = change.unix_ms;
      break;
    case Kind::kErase:
      rows_.erase(row);
  }
}

}  // namespace baton::simulator
