// Grants the cores of a small machine to one worker at a time. Two workers with a kernel thread per core would
// otherwise stall each other at every barrier, where a thread of each waits for one that has no core.
//
//   state of the cores | event                                             | next   | action
//   -------------------+---------------------------------------------------+--------+--------------------------------
//   free               | Enter                                             | held   |
//   held               | Enter of another                                  | held   | it queues; one at a time is next,
//                      |                                                   |        | in the order of their coming
//   held               | Leave                                             | free   | the next one enters; one that
//                      |                                                   |        | yields computes decode_tokens_pause_ns after
//                      |                                                   |        | one that does not has left
//   held               | Yield, which ShouldYield asks for once somebody   | free   | the next one enters; the holder
//                      | is next and the holder's quantum is over          |        | queues behind it
//   held               | the holder dies                                   | free   | the next one enters
//   held               | the holder shows no life for silence_ns and its   | held   | whoever waits computes without a grant;
//                      | process is stopped, or one waits max_wait_ns in   |        | until the holder shows life, it only
//                      | vain                                              |        | looks whether the cores are free and
//                      |                                                   |        | waits no more
//
// A holder shows life when it enters, when it leaves and, while it computes, with every ShouldYield or ShowLife.
// Silence alone is no proof, because a busy machine takes the cores from a holder for longer than a period. So a
// stopped process costs each of its neighbours silence_ns once, and the cores have one holder at a time again once it
// goes on. Whoever is next shows life too while it waits; the others behind it wait longer for that, because each wait
// that they begin anew puts them at the end of their queue.
//
// So a lone request uses all cores in each phase. While prefill and decode compete, prefill's quantum ends one period
// after decode's last turn began, so that streams run evenly however long a turn takes.
#ifndef BATON_ENGINE_CORE_ARBITER_H_
#define BATON_ENGINE_CORE_ARBITER_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "engine/step_gate.h"

namespace baton::engine {

// The period was measured in the open loop of docs/performance.md: a longer one lets no more requests keep their
// limits, a shorter one fewer.
inline constexpr int kDecodePeriodMs = 20;

// The pause after a step of decode lets its tokens leave. A dozen short wake-ups in three processes bring them to the
// clients; beside threads that compute without a pause, some of these wait up to 4 ms for the timer's next tick. At a
// period of 20 ms, p90 of the gaps between tokens is 21 ms with the pause and 24 ms without it.
inline constexpr int kDecodeTokensPauseMs = 1;

// Whether a signal or a debugger has stopped the thread. False of a thread that does not exist, or that is in another
// PID namespace.
bool IsStoppedThread(pid_t tid);

struct CoreArbiterOptions {
  // Lets others in during a step: prefill does, decode does not.
  bool yields = false;
  // How often a worker that does not yield gets its turn while one that yields computes.
  int64_t period_ns = kDecodePeriodMs * kNsPerMs;
  // How long a holder that yields computes at least before it lets others in, however long their turns are.
  int64_t min_quantum_ns = 10 * kNsPerMs;
  // How long a worker that yields leaves the cores idle after one that does not yield has left them.
  int64_t decode_tokens_pause_ns = kDecodeTokensPauseMs * kNsPerMs;
  // When a holder shows no life for this long, the arbiter asks whether its process is stopped.
  int64_t silence_ns = kDecodePeriodMs * kNsPerMs;
  bool (*is_stopped)(pid_t) = IsStoppedThread;
  // After a wait of this length the step runs without a grant, although the holder shows life.
  int64_t max_wait_ns = 2 * kNsPerSecond;
};

// Whoever is next may be silent for so many times as long as a holder.
inline constexpr int kNextSilenceFactor = 5;

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
  void ShowLife() override;
  void Yield() override;
  void Leave() override;
  int64_t yield_count() const override { return yield_count_; }
  int64_t grant_count() const override { return grant_count_; }
  int64_t wait_ns() const override { return wait_ns_; }

  // Whether this process holds the cores: false outside of steps, and in a step that runs without a grant.
  bool granted() const { return granted_; }
  // Whether a process waits for the cores, and is next.
  bool SomebodyIsNext();

 private:
  struct Shared;
  struct Place;
  // What this process knows of the one that holds a place.
  struct Holder {
    // The place's count of signs of life when a wait for it was given up; 0 when none was.
    uint64_t signs_when_given_up = 0;
  };
  friend absl::StatusOr<int> CreateCoreArbiter();

  CoreArbiter(Shared& shared, const CoreArbiterOptions& options, const Clock& clock)
      : shared_(shared), options_(options), clock_(clock) {}

  // How long one waits for a place.
  struct Patience {
    int64_t max_wait_ns = 0;
    // The holder may show no life for this long.
    int64_t silence_ns = 0;
  };
  // Waits for the place; not at all while its holder has shown no life since a wait for it was given up. Shows life at
  // `held`, if there is one, meanwhile.
  bool Take(Place& place, Holder& holder, const Patience& patience, Place* held);
  static bool WasGivenUp(const Place& place, const Holder& holder);
  // Sleeps until the pause after decode's last step is over.
  void PauseForDecodeTokens() const;

  Shared& shared_;
  const CoreArbiterOptions options_;
  const Clock& clock_;
  // When this process began to compute.
  TimeNs entered_ = 0;
  bool granted_ = false;
  int64_t yield_count_ = 0;
  int64_t grant_count_ = 0;
  int64_t wait_ns_ = 0;
  Holder next_holder_;
  Holder cores_holder_;
  // When this process last showed life while it computed.
  TimeNs showed_life_ = 0;
};

}  // namespace baton::engine

#endif  // BATON_ENGINE_CORE_ARBITER_H_
