#include "engine/model/shared_phases.h"

#include <utility>

namespace baton::engine {

SharedPhases::SharedPhases(std::unique_ptr<kernels::ThreadPool> pool, int max_phases)
    : claims_(static_cast<size_t>(max_phases) * static_cast<size_t>(pool->size())), pool_(std::move(pool)) {}

void SharedPhases::Run(absl::FunctionRef<void(Cursor& cursor)> step) {
  for (Claim& claim : claims_) claim.next.store(0, std::memory_order_relaxed);
  pause_.store(-1, std::memory_order_relaxed);
  pool_->Run([step](int thread) {
    Cursor cursor{.thread = thread};
    step(cursor);
  });
}

void SharedPhases::ForEach(int count, absl::FunctionRef<void(int)> fn) {
  std::atomic<int> next{0};
  pool_->Run([&](int) {
    for (int i = next.fetch_add(1); i < count; i = next.fetch_add(1)) fn(i);
  });
}

SharedPhases::Range SharedPhases::ShareOf(int units, int thread) const {
  const int64_t threads = pool_->size();
  return {static_cast<int>(int64_t{units} * thread / threads),
          static_cast<int>(int64_t{units} * (thread + 1) / threads)};
}

bool SharedPhases::PauseIsDue(const Cursor& cursor) {
  if (gate_ == nullptr) return false;
  if (!gate_->yields()) {
    if (cursor.thread == 0) gate_->ShowLife();
    return false;
  }
  if (cursor.thread == 0 && pause_.load(std::memory_order_relaxed) != cursor.meetings && gate_->ShouldYield()) {
    pause_.store(cursor.meetings, std::memory_order_relaxed);
  }
  return pause_.load(std::memory_order_relaxed) == cursor.meetings;
}

bool SharedPhases::Paused(Cursor& cursor) {
  const bool paused = pause_.load(std::memory_order_relaxed) == cursor.meetings;
  ++cursor.meetings;
  if (!paused) return false;
  if (cursor.thread == 0) pool_->OnCaller([this] { gate_->Yield(); });
  pool_->Barrier();
  return true;
}

}  // namespace baton::engine
