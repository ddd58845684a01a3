#include "discovery/directory.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "common/log.h"
#include "common/log_limit.h"
#include "common/random.h"

namespace baton::discovery {
namespace {

using State = DirectorySession::State;

// How often the thread looks whether it has to leave.
constexpr int64_t kDirectoryTickMs = 50;
// An etcd that starts together with the fleet, or elects a leader, is away for so long.
constexpr int64_t kComplainAfterMs = 3'000;

}  // namespace

Directory::Directory(DirectoryOptions options, SessionOptions own, std::function<void(const Fleet&)> on_change)
    : options_(std::move(options)),
      own_(std::move(own)),
      on_change_(std::move(on_change)),
      next_endpoint_(SystemRandom().Below(options_.endpoints.size())),
      apart_since_(MonotonicClock().Now()),
      thread_([this] { Run(); }) {}

Directory::~Directory() { Leave(); }

void Directory::Leave() {
  {
    absl::MutexLock lock(&mutex_);
    leaving_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

absl::Status Directory::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

size_t Directory::entries() const {
  absl::MutexLock lock(&mutex_);
  return entries_;
}

void Directory::Run() {
  DirectorySession session(own_, MonotonicClock(), SystemRandom());
  while (session.state() != State::kGone) {
    const int64_t due_ms = (session.NextTimer() - MonotonicClock().Now()) / kNsPerMs + 1;
    const int64_t wait_ms = std::clamp<int64_t>(due_ms, 0, kDirectoryTickMs);
    bool leaving = false;
    if (connection_ != nullptr) {
      connection_->Await(wait_ms);
      absl::MutexLock lock(&mutex_);
      leaving = leaving_;
    } else {
      absl::MutexLock lock(&mutex_);
      leaving = mutex_.AwaitWithTimeout(absl::Condition(&leaving_), absl::Milliseconds(wait_ms));
    }
    if (leaving) session.Leave();
    session.OnTimer();
    Act(session);
    Note(session);
  }
}

void Directory::Act(DirectorySession& session) {
  for (const Action& action : session.TakeActions()) {
    if (std::holds_alternative<action::HangUp>(action)) {
      connection_.reset();
    } else if (std::holds_alternative<action::Changed>(action)) {
      OnChanged(session);
    } else {
      if (connection_ == nullptr) Connect(session);
      connection_->Do(action);
    }
  }
}

void Directory::Connect(DirectorySession& session) {
  endpoint_ = options_.endpoints[next_endpoint_++ % options_.endpoints.size()];
  connection_ = std::make_unique<EtcdConnection>(endpoint_, options_.credentials(), options_.prefix, session);
}

void Directory::OnChanged(const DirectorySession& session) {
  const Fleet fleet = ReadFleet(options_.prefix, session.entries());
  static LogLimit limit;
  if (!fleet.unreadable.empty()) {
    if (const auto left_out = limit.Admit()) {
      spdlog::warn("{} entries of the etcd at {} are no announcements, such as {}: delete them{}",
                   fleet.unreadable.size(), endpoint_, absl::CHexEscape(fleet.unreadable.front()),
                   LeftOutNote(*left_out));
    }
  }
  on_change_(fleet);
}

void Directory::Note(const DirectorySession& session) {
  const State state = session.state();
  const bool follows = state == State::kFollowing;
  {
    absl::MutexLock lock(&mutex_);
    entries_ = session.entries().size();
    if (follows) status_ = absl::OkStatus();
    if (state == State::kApart && !session.broken().ok()) status_ = session.broken();
  }
  const TimeNs now = MonotonicClock().Now();
  if (follows && noted_ != State::kFollowing) {
    spdlog::info("announced in the etcd at {} as {}", endpoint_, own_.key);
    complained_ = false;
  } else if (!follows && noted_ == State::kFollowing) {
    apart_since_ = now;
  }
  noted_ = state;
  if (state != State::kApart || complained_ || now < After(apart_since_, kComplainAfterMs)) return;
  complained_ = true;
  spdlog::warn("no etcd answers at {} ({}): what it said last holds, and this process asks on",
               absl::StrJoin(options_.endpoints, " or "), session.broken().ToString());
}

}  // namespace baton::discovery
