// Grants the cores of a small machine to one worker at a time. Two workers with a kernel thread a core would otherwise
// stall each other at every barrier: one thread of each waits for another that has no core.
//
//   state of the cores | event                                             | next   | action
//   -------------------+---------------------------------------------------+--------+--------------------------------
//   free               | Enter                                             | held   |
//   held               | Enter of another                                  | held   | it queues; one at a time is next
//   held               | Leave                                             | free   | the next one enters; one that
//                      |                                                   |        | yields computes decode_tokens_pause_ns after
//                      |                                                   |        | one that does not has left
//   held               | Yield, which ShouldYield asks for once somebody   | free   | the next one enters; the holder
//                      | is next and the quantum of one that yields over   |        | queues behind it
//   held               | the holder dies                                   | free   | the next one enters
//
// A lone request so uses all cores in each phase. While prefill and decode compete, the quantum lasts until a period
// after decode's last turn began, so that streams run evenly however long a turn takes.
#ifndef BATON_ENGINE_CORE_ARBITER_H_
#define BATON_ENGINE_CORE_ARBITER_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "engine/step_gate.h"

namespace baton::engine {

// Measured in the open loop of docs/performance.md: a longer one holds no more requests, a shorter one fewer.
inline constexpr int kDecodePeriodMs = 20;

// After a step of decode, for its tokens: a dozen short wake-ups in three processes bring them to the clients, and
// beside threads that compute without a pause some of these wait for the timer's next tick, up to 4 ms. With the pause
// p90 of the gaps between tokens is 21 ms, without it 24, at a period of 20.
inline constexpr int kDecodeTokensPauseMs = 1;

struct CoreArbiterOptions {
  // Lets others in during a step: prefill does, decode does not.
  bool yields = false;
  // How often those that do not yield have their turn while a yielding one computes.
  int64_t period_ns = kDecodePeriodMs * kNsPerMs;
  // What a yielding holder computes at least before it lets others in, however long their turns are.
  int64_t min_quantum_ns = 10 * kNsPerMs;
  // How long one that yields leaves the cores idle after one that does not has left.
  int64_t decode_tokens_pause_ns = kDecodeTokensPauseMs * kNsPerMs;
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
  bool ShouldYield() override;
  void Yield() override;
  void Leave() override;

 private:
  struct Shared;
  friend absl::StatusOr<int> CreateCoreArbiter();

  CoreArbiter(Shared& shared, const CoreArbiterOptions& options, const Clock& clock)
      : shared_(shared), options_(options), clock_(clock) {}

  // Sleeps until the tokens of decode's last step are on their way.
  void PauseForDecodeTokens() const;

  Shared& shared_;
  const CoreArbiterOptions options_;
  const Clock& clock_;
  // Since when this process computes.
  TimeNs entered_ = 0;
  // False when the wait was given up.
  bool granted_ = false;
};

}  // namespace baton::engine

#endif  // BATON_ENGINE_CORE_ARBITER_H_
