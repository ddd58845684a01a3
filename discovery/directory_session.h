// A process's stay in the directory of its fleet, which is kept by a store like etcd: the process announces itself
// under a lease, and follows what the others announce. The store's revisions make sure that no change is missed between
// the list and the watch.
//
//   state      | event                              | next       | actions
//   -----------+------------------------------------+------------+-----------------------------------------------------
//   apart      | the back-off is over               | granting   | Grant
//   granting   | granted                            | announcing | Put, under the new lease
//   announcing | put                                | listing    | List
//   listing    | listed                             | following  | Watch from the next revision, KeepAlive; Changed if
//              |                                    |            | the entries are others than before
//   following  | changes                            | following  | Changed if an entry has changed
//   following  | a third of the lease's time passed | following  | KeepAlive
//   following  | kept alive                         | following  | -
//   following  | the lease or the own entry is gone | apart      | HangUp; again at once, under a new lease, unless it
//              |                                    |            | has just begun to follow
//   any but    | a call failed, or had no answer in | apart      | HangUp; the back-off doubles until an answer to List
//   apart      | time                               |            | comes
//   any        | Leave                              | leaving    | Revoke, which deletes the entry; else HangUp
//   leaving    | revoked, failed or no answer       | gone       | HangUp
//
// A store that is away changes nothing: what it said last holds until it says something else.
#ifndef BATON_DISCOVERY_DIRECTORY_SESSION_H_
#define BATON_DISCOVERY_DIRECTORY_SESSION_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "common/clock.h"
#include "common/limits.h"
#include "common/random.h"

namespace baton::discovery {

// Value by key.
using Entries = std::map<std::string, std::string>;

// What became of one key.
struct EntryChange {
  std::string key;
  std::string value;
  bool deleted = false;
};

struct SessionOptions {
  // The entry of this process.
  std::string key;
  std::string value;
  int64_t ttl_s = kDirectoryTtlS;
};

// What the owner does with the store. Each but Changed and HangUp has one answer, an event of the session; a Watch has
// one for each change.
namespace action {
struct Grant {
  int64_t ttl_s = 0;
};
struct Put {
  std::string key;
  std::string value;
  int64_t lease = 0;
};
struct List {};
struct Watch {
  int64_t from_revision = 0;
};
struct KeepAlive {
  int64_t lease = 0;
};
struct Revoke {
  int64_t lease = 0;
};
// All calls are given up. No answer to them counts any more.
struct HangUp {};
// entries() has changed.
struct Changed {};
}  // namespace action
using Action = std::variant<action::Grant, action::Put, action::List, action::Watch, action::KeepAlive, action::Revoke,
                            action::HangUp, action::Changed>;

// Used by one thread.
class DirectorySession {
 public:
  enum class State : uint8_t { kApart, kGranting, kAnnouncing, kListing, kFollowing, kLeaving, kGone };

  // Both others outlive the session. OnTimer begins it.
  DirectorySession(SessionOptions options, const Clock& clock, RandomSource& random);

  // Answers of the store, in the order of the calls. One that the state does not expect is ignored.
  // What it granted, in seconds.
  void OnGranted(int64_t lease, int64_t ttl_s);
  void OnPut();
  // Keys beyond kMaxDirectoryEntries, and values beyond kMaxAnnouncementBytes, are left out.
  void OnListed(Entries entries, int64_t revision);
  void OnChanges(const std::vector<EntryChange>& changes);
  // What is left of the lease, in seconds; 0: it is gone.
  void OnKeptAlive(int64_t ttl_s);
  void OnRevoked();
  // A call has failed, or ended by itself.
  void OnBroken(const absl::Status& why);

  void OnTimer();
  TimeNs NextTimer() const;
  void Leave();

  State state() const { return state_; }
  const Entries& entries() const { return entries_; }
  // Why the session is apart.
  const absl::Status& broken() const { return broken_; }
  std::vector<Action> TakeActions() { return std::exchange(actions_, {}); }

 private:
  void Enter(State state, int64_t timeout_ms);
  // Ends the calls. The next attempt comes at once or after the back-off.
  void Break(absl::Status why, bool at_once);
  bool Fits(const std::string& key, const std::string& value) const;

  const SessionOptions options_;
  const Clock& clock_;
  RandomSource& random_;
  State state_ = State::kApart;
  absl::Status broken_;
  int64_t lease_ = 0;
  int64_t ttl_ms_ = 0;
  int64_t backoff_ms_ = 0;
  // When it began to follow, for the last time.
  TimeNs followed_at_ = 0;
  // Apart: when the next attempt begins. Else: when the answer that is awaited is late.
  TimeNs deadline_ = 0;
  TimeNs next_keep_alive_ = kNever;
  Entries entries_;
  std::vector<Action> actions_;
};

}  // namespace baton::discovery

#endif  // BATON_DISCOVERY_DIRECTORY_SESSION_H_
