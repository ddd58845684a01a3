#include "worker/attempt_owners.h"

#include "absl/strings/str_cat.h"

namespace baton::worker {

absl::Status AttemptOwners::Begin(const JobKey& key, size_t router) {
  const auto [it, is_new] = owners_.try_emplace(key, Owner{.router = router});
  Owner& owner = it->second;
  if (owner.open || owner.router != router) {
    return absl::AlreadyExistsError(absl::StrCat("attempt ", key.ToString(), " of another call"));
  }
  owner.open = true;
  return absl::OkStatus();
}

void AttemptOwners::End(const JobKey& key) {
  const auto it = owners_.find(key);
  if (it != owners_.end()) it->second.open = false;
}

void AttemptOwners::KeepOnly(const absl::flat_hash_set<JobKey>& holders) {
  absl::erase_if(owners_,
                 [&holders](const auto& owner) { return !owner.second.open && !holders.contains(owner.first); });
}

std::optional<size_t> AttemptOwners::RouterOf(const JobKey& key) const {
  const auto it = owners_.find(key);
  if (it == owners_.end()) return std::nullopt;
  return it->second.router;
}

absl::flat_hash_set<JobKey> HoldersOf(const BlockReport& report) {
  absl::flat_hash_set<JobKey> holders;
  for (const BlockHolder& holder : report.holders) holders.insert(holder.key);
  return holders;
}

BlockReport PartOf(const BlockReport& report, size_t router,
                   absl::FunctionRef<std::optional<size_t>(const JobKey&)> member_of) {
  BlockReport part = {.free_blocks = report.free_blocks, .cached_blocks = report.cached_blocks, .holders = {}};
  for (const BlockHolder& holder : report.holders) {
    const std::optional<size_t> member = member_of(holder.key);
    if (!member.has_value() || *member == router) {
      part.holders.push_back(holder);
    } else {
      part.other_routers_blocks += holder.own_blocks;
    }
  }
  return part;
}

}  // namespace baton::worker
