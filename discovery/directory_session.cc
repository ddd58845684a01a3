#include "discovery/directory_session.h"

#include <algorithm>
#include <utility>

namespace baton::discovery {
namespace {

constexpr int64_t kAnswerMs = 2'000;
constexpr int64_t kRevokeMs = 1'000;
// A store may grant more than it was asked for.
constexpr int64_t kMaxGrantedTtlS = 60;
constexpr int64_t kFirstBackoffMs = 100;
constexpr int64_t kMaxBackoffMs = 2'000;
// A lease lives for long enough that three words of the process have to be lost in a row.
constexpr int64_t kKeepAlivesPerTtl = 3;

}  // namespace

DirectorySession::DirectorySession(SessionOptions options, const Clock& clock, RandomSource& random)
    : options_(std::move(options)), clock_(clock), random_(random), deadline_(clock.Now()) {}

void DirectorySession::Enter(State state, int64_t timeout_ms) {
  state_ = state;
  deadline_ = After(clock_.Now(), timeout_ms);
}

bool DirectorySession::Fits(const std::string& key, const std::string& value) const {
  return value.size() <= kMaxAnnouncementBytes && (entries_.size() < kMaxDirectoryEntries || entries_.contains(key));
}

void DirectorySession::OnGranted(int64_t lease, int64_t ttl_s) {
  if (state_ != State::kGranting) return;
  lease_ = lease;
  ttl_ms_ = std::clamp<int64_t>(ttl_s, 1, kMaxGrantedTtlS) * 1000;
  Enter(State::kAnnouncing, kAnswerMs);
  actions_.emplace_back(action::Put{.key = options_.key, .value = options_.value, .lease = lease});
}

void DirectorySession::OnPut() {
  if (state_ != State::kAnnouncing) return;
  Enter(State::kListing, kAnswerMs);
  actions_.emplace_back(action::List{});
}

void DirectorySession::OnListed(Entries entries, int64_t revision) {
  if (state_ != State::kListing) return;
  const Entries before = std::exchange(entries_, {});
  for (auto& [key, value] : entries) {
    if (Fits(key, value)) entries_.emplace(key, std::move(value));
  }
  backoff_ms_ = 0;
  followed_at_ = clock_.Now();
  broken_ = absl::OkStatus();
  Enter(State::kFollowing, ttl_ms_);
  next_keep_alive_ = After(clock_.Now(), ttl_ms_ / kKeepAlivesPerTtl);
  actions_.emplace_back(action::Watch{.from_revision = revision + 1});
  actions_.emplace_back(action::KeepAlive{.lease = lease_});
  if (entries_ != before) actions_.emplace_back(action::Changed{});
}

void DirectorySession::OnChanges(const std::vector<EntryChange>& changes) {
  if (state_ != State::kFollowing) return;
  const bool own_is_gone = std::any_of(changes.begin(), changes.end(), [this](const EntryChange& change) {
    return change.deleted && change.key == options_.key;
  });
  bool changed = false;
  for (const EntryChange& change : changes) {
    if (change.deleted) {
      changed |= entries_.erase(change.key) > 0;
    } else if (Fits(change.key, change.value)) {
      changed |= std::exchange(entries_[change.key], change.value) != change.value;
    }
  }
  if (changed) actions_.emplace_back(action::Changed{});
  if (own_is_gone) Break(absl::NotFoundError("the entry of this process was deleted"), /*at_once=*/true);
}

void DirectorySession::OnKeptAlive(int64_t ttl_s) {
  if (state_ != State::kFollowing) return;
  if (ttl_s <= 0) return Break(absl::NotFoundError("the lease of this process has expired"), /*at_once=*/true);
  deadline_ = After(clock_.Now(), ttl_ms_);
}

void DirectorySession::OnRevoked() {
  if (state_ != State::kLeaving) return;
  state_ = State::kGone;
  actions_.emplace_back(action::HangUp{});
}

void DirectorySession::OnBroken(const absl::Status& why) {
  if (state_ == State::kLeaving) return OnRevoked();
  if (state_ == State::kApart || state_ == State::kGone) return;
  Break(why, /*at_once=*/false);
}

void DirectorySession::Break(absl::Status why, bool at_once) {
  broken_ = std::move(why);
  actions_.emplace_back(action::HangUp{});
  // Whoever deletes the entry again and again gets no busy loop.
  at_once &= clock_.Now() >= After(followed_at_, kMaxBackoffMs);
  if (!at_once) backoff_ms_ = std::clamp(2 * backoff_ms_, kFirstBackoffMs, kMaxBackoffMs);
  // Half of it is drawn, so that a fleet does not come back all at once.
  const int64_t half_ms = at_once ? 0 : backoff_ms_ / 2;
  Enter(State::kApart, half_ms + static_cast<int64_t>(random_.Below(half_ms + 1)));
  next_keep_alive_ = kNever;
}

void DirectorySession::OnTimer() {
  const TimeNs now = clock_.Now();
  if (now >= deadline_) {
    switch (state_) {
      case State::kApart:
        Enter(State::kGranting, kAnswerMs);
        actions_.emplace_back(action::Grant{.ttl_s = options_.ttl_s});
        break;
      case State::kLeaving:
        OnRevoked();
        break;
      case State::kGone:
        break;
      default:
        Break(absl::DeadlineExceededError("no answer in time"), /*at_once=*/false);
    }
  }
  if (state_ != State::kFollowing || now < next_keep_alive_) return;
  next_keep_alive_ = After(now, ttl_ms_ / kKeepAlivesPerTtl);
  actions_.emplace_back(action::KeepAlive{.lease = lease_});
}

TimeNs DirectorySession::NextTimer() const {
  return state_ == State::kGone ? kNever : std::min(deadline_, next_keep_alive_);
}

void DirectorySession::Leave() {
  if (state_ == State::kLeaving || state_ == State::kGone) return;
  const bool is_announced = state_ == State::kAnnouncing || state_ == State::kListing || state_ == State::kFollowing;
  next_keep_alive_ = kNever;
  Enter(State::kLeaving, kRevokeMs);
  if (!is_announced) return OnRevoked();
  actions_.emplace_back(action::Revoke{.lease = lease_});
}

}  // namespace baton::discovery
