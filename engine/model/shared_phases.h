// Shares a step's work among the kernel threads. A step is a sequence of phases, which all threads go through together.
// The units of a phase are divided into one share per thread; a thread that is done with its own share goes on with
// what others have left of theirs. Between phases the threads meet at a barrier. They also meet in the middle of a
// phase when the step's gate wants the cores back.
#ifndef BATON_ENGINE_MODEL_SHARED_PHASES_H_
#define BATON_ENGINE_MODEL_SHARED_PHASES_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/kernels/thread_pool.h"
#include "engine/step_gate.h"

namespace baton::engine {

class SharedPhases {
 public:
  struct Range {
    int begin;
    int end;
  };
  // How far a thread is in the step. All threads go through the same phases.
  struct Cursor {
    int thread;
    int phase = 0;
    // How often all threads have met, at the end of a phase or at a pause.
    int meetings = 0;
  };

  // A step has at most `max_phases` calls of Share.
  SharedPhases(std::unique_ptr<kernels::ThreadPool> pool, int max_phases);

  // The gate that a step yields to; outlives the object. Null: none.
  void set_gate(StepGate* gate) { gate_ = gate; }
  int threads() const { return pool_->size(); }

  // Runs step(cursor) on every thread and returns when all have returned.
  void Run(absl::FunctionRef<void(Cursor& cursor)> step);
  // Calls fn(i) once for each i of [0, count), outside of a step.
  void ForEach(int count, absl::FunctionRef<void(int)> fn);

  // The following are called within a step.

  // A thread's share of [0, units).
  Range ShareOf(int units, int thread) const;
  // Calls fn(unit) until all threads together have done [0, units), and then meets the others at a barrier. A thread's
  // own share is contiguous, and so are its weights in memory.
  template <typename Fn>
  void Share(Cursor& cursor, int units, Fn fn);
  // Returns when every thread has called it.
  void Barrier() { pool_->Barrier(); }

 private:
  // A cache line each.
  struct alignas(64) Claim {
    std::atomic<int32_t> next{0};
  };
  // A thread's share of a phase is claimed in this many parts, so that others can take parts of a late thread's share.
  static constexpr int kClaimsPerThread = 64;

  // Claims units and does them until all are claimed, or a pause is due.
  template <typename Fn>
  void DoUnits(const Cursor& cursor, int units, Fn fn);
  // Whether the threads shall meet early because the gate wants the cores back. Thread 0 asks the gate.
  bool PauseIsDue(const Cursor& cursor);
  // All threads call it after they have met. Returns whether they met for a pause, which is over when it returns.
  bool Paused(Cursor& cursor);

  StepGate* gate_ = nullptr;
  // For each phase and thread the next unit of its share.
  std::vector<Claim> claims_;
  // The number of the meeting that is a pause. Thread 0 writes it, and does not write it again before all threads have
  // left that meeting.
  std::atomic<int> pause_{-1};
  const std::unique_ptr<kernels::ThreadPool> pool_;
};

template <typename Fn>
void SharedPhases::Share(Cursor& cursor, int units, Fn fn) {
  do {
    DoUnits(cursor, units, fn);
    pool_->Barrier();
  } while (Paused(cursor));
  ++cursor.phase;
}

template <typename Fn>
void SharedPhases::DoUnits(const Cursor& cursor, int units, Fn fn) {
  const int threads = pool_->size();
  for (int i = 0; i < threads; ++i) {
    const int owner = (cursor.thread + i) % threads;
    const Range share = ShareOf(units, owner);
    std::atomic<int32_t>& next = claims_[static_cast<size_t>(cursor.phase * threads + owner)].next;
    const int count = share.end - share.begin;
    const int part = std::max(1, count / kClaimsPerThread);
    for (int begin = next.fetch_add(part); begin < count; begin = next.fetch_add(part)) {
      for (int unit = begin; unit < std::min(begin + part, count); ++unit) fn(share.begin + unit);
      // Asked only now, after some work, so that thread 0 makes progress however soon the gate wants the cores back.
      if (PauseIsDue(cursor)) return;
    }
  }
}

}  // namespace baton::engine

#endif  // BATON_ENGINE_MODEL_SHARED_PHASES_H_
