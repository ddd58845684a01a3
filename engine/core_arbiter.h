// Grants the cores of a small machine to one worker at a time. Two workers with a kernel thread a core would otherwise
// stall each other at every barrier: one thread of each waits for another that has no core.
//
//   state of the cores | event                                             | next   | action
//   -------------------+---------------------------------------------------+--------+--------------------------------
//   free               | Enter                                             | held   |
//   held               | Enter of another                                  | held   | it queues; one at a time is next
//   held               | Leave                                             | free   | the next one enters
//   held               | YieldPoint, yielding, somebody is next, and the   | free   | the next one enters; the holder
//                      | holder's quantum is over                          |        | queues behind it
//   held               | the holder dies                                   | free   | the next one enters
//
// A lone request so uses all cores in each phase. While prefill and decode compete, the quantum is what a decode step
// leaves of a period. It is short while no prompt waits behind the one at hand, so that streams run smoothly, and grows
// with the backlog: then streams go as slowly as they may, and prefill gets all the rest.
#ifndef BATON_ENGINE_CORE_ARBITER_H_
#define BATON_ENGINE_CORE_ARBITER_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "engine/step_gate.h"

namespace baton::engine {

// 40 ms a token is fluent to a reader, and some of it goes to the way there and back.
inline constexpr int kDecodePeriodMs = 36;
inline constexpr int kCalmDecodePeriodMs = 20;
// Of prompts that wait: from here on the period is the whole one.
inline constexpr int64_t kFullBacklogTokens = 1024;

struct CoreArbiterOptions {
  // Lets others in at yield points: prefill does, decode does not.
  bool yields = false;
  // How often those that do not yield have their turn while a yielding one computes: with kFullBacklogTokens behind the
  // step at hand, and with none. In between by proportion.
  int64_t period_ns = kDecodePeriodMs * kNsPerMs;
  int64_t calm_period_ns = kCalmDecodePeriodMs * kNsPerMs;
  // Prompt tokens behind the step that is about to run. Called by Enter of one that yields. Null: the backlog counts as
  // full.
  std::function<int64_t()> backlog_tokens;
  // What a yielding holder computes at least before it lets others in, however long their turns are.
  int64_t min_quantum_ns = 10 * kNsPerMs;
  // After so long a wait the step runs without a grant: a stopped process slows its neighbours down, no more.
  int64_t max_wait_ns = 2 * kNsPerSecond;
};

// Shared memory with no name, for every process of one supervisor: give the descriptor to the children. The caller
// closes it. INTERNAL as the system says.
absl::StatusOr<int> CreateCoreArbiter();

class CoreArbiter final : public StepGate {
 public:
  // Maps what CreateCoreArbiter made, and keeps nothing of the descriptor. INVALID_ARGUMENT when it is something else.
  static absl::StatusOr<std::unique_ptr<CoreArbiter>> Open(int fd, const CoreArbiterOptions& options,
                                                           const Clock& clock);
  ~CoreArbiter() override;

  void Enter() override;
  bool yields() const override { return options_.yields; }
  void YieldPoint() override;
  void Leave() override;

 private:
  int64_t Period() const;

  struct Shared;
  friend absl::StatusOr<int> CreateCoreArbiter();

  CoreArbiter(Shared& shared, const CoreArbiterOptions& options, const Clock& clock)
      : shared_(shared), options_(options), clock_(clock) {}

  Shared& shared_;
  const CoreArbiterOptions options_;
  const Clock& clock_;
  int64_t period_ns_ = 0;
  // Since when this process computes, and its last yield point.
  TimeNs entered_ = 0;
  TimeNs last_point_ = 0;
  // False when the wait was given up.
  bool granted_ = false;
};

}  // namespace baton::engine

#endif  // BATON_ENGINE_CORE_ARBITER_H_
