// When a child of the supervisor is started, and when it is killed because it hangs: a state machine without I/O, one
// for each child.
//
// | state   | event                                   | next    | effect                                               |
// |---------|-----------------------------------------|---------|------------------------------------------------------|
// | down    | the time to start has come              | loading | kStart                                               |
// | loading | the child is ready                      | serving | its deaths before ready are forgotten                |
// | loading | the child ends                          | down    | one more death before ready; start after a back-off  |
// | loading | not ready in ready_timeout_ms           | killed  | kKill                                                |
// | serving | the child ends                          | down    | start at once                                        |
// | serving | amiss for hung_timeout_ms without break | killed  | kKill                                                |
// | killed  | the child ends                          | down    | as in the state in which it was killed               |
//
// The n-th death in a row before ready costs a back-off of first_backoff_ms * 2^(n-1), at most max_backoff_ms, of which
// the second half is random, so that children which fail for the same reason do not come back in the same moment.
//
// Both limits count only time that was watched. A child that is stopped by a signal neither hangs nor gets ready, so
// its time does not count. Between two ticks at most kMaxTickMs count, because a supervisor that was paused itself has
// not seen what its children did meanwhile.
#ifndef BATON_CLI_RESTART_POLICY_H_
#define BATON_CLI_RESTART_POLICY_H_

#include <cstdint>

#include "common/clock.h"
#include "common/random.h"

namespace baton::cli {

struct RestartPolicyOptions {
  int64_t ready_timeout_ms = 900'000;
  int64_t hung_timeout_ms = 60'000;
  int64_t first_backoff_ms = 200;
  int64_t max_backoff_ms = 10'000;
};

enum class ChildHealth {
  // Nobody can say. It ends a time of kAmiss.
  kUnknown,
  kWell,
  // It does not do its work: a router that does not answer, a worker that its router does not know.
  kAmiss,
  // A signal stopped it.
  kStopped,
};

// Used by one thread. `clock` and `random` outlive it.
class RestartPolicy {
 public:
  enum class Action { kNone, kStart, kKill };

  static constexpr int64_t kMaxTickMs = 1'000;

  RestartPolicy(const RestartPolicyOptions& options, const Clock& clock, RandomSource& random)
      : options_(options), clock_(clock), random_(random) {}

  // What to do now. The caller does it at once; a start that fails is an end. Call it several times a second.
  Action Tick(ChildHealth health);
  void OnReady();
  void OnEnd();

  bool loading() const { return state_ == State::kLoading; }
  bool serving() const { return state_ == State::kServing; }
  // Whether the child got ready since its start.
  bool was_ready() const { return was_ready_; }
  // After OnEnd: how long until the next start.
  int64_t backoff_ms() const { return backoff_ms_; }

 private:
  enum class State { kDown, kLoading, kServing, kKilled };

  void CountWatched(ChildHealth health, int64_t tick_ns);
  int64_t DrawBackoffMs();

  const RestartPolicyOptions options_;
  const Clock& clock_;
  RandomSource& random_;
  State state_ = State::kDown;
  TimeNs last_tick_ = kNever;
  TimeNs start_at_ = 0;
  int64_t backoff_ms_ = 0;
  int deaths_before_ready_ = 0;
  bool was_ready_ = false;
  // While loading: since the start. While serving: since the child was last not amiss.
  int64_t watched_ns_ = 0;
};

}  // namespace baton::cli

#endif  // BATON_CLI_RESTART_POLICY_H_
