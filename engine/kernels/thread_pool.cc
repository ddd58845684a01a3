#include "engine/kernels/thread_pool.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "absl/types/span.h"
#include "common/check.h"
#include "common/own_fault.h"
#include "engine/kernels/dispatch.h"

namespace baton::engine::kernels {
namespace {

constexpr uint64_t kSliceNs = 10'000'000;

// The cores of the calling thread; none when there are more than a cpu_set_t holds.
std::vector<int> UsableCores() {
  cpu_set_t set;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

// Fails when cores were taken away in the meantime. The calling thread then runs where it may.
void RunOn(absl::Span<const int> cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

// The argument of sched_setattr(2), which older C libraries do not declare.
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0;
  uint64_t deadline = 0;
  uint64_t period = 0;
};

// Sets the calling thread's time slice. Systems without slices per thread ignore it.
void TakeLongSlices() {
  SchedulingAttributes attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) return;
  attributes.runtime = kSliceNs;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace

ThreadPool::ThreadPool(int threads, PoolCaller caller) : size_(threads), caller_(caller) {
  BATON_CHECK(threads >= 1) << threads;
  if (threads > 1) cores_ = UsableCores();
  if (cores_.size() != static_cast<size_t>(threads)) cores_.clear();
  for (int t = caller == PoolCaller::kComputes ? 1 : 0; t < threads; ++t) {
    threads_.emplace_back([this, t] { Work(t); });
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_release);
  epoch_.Raise();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::Bind(int thread) const {
  if (!cores_.empty()) RunOn({&cores_[static_cast<size_t>(thread)], 1});
}

void ThreadPool::Unbind() const {
  if (!cores_.empty()) RunOn(cores_);
}

void ThreadPool::Run(absl::FunctionRef<void(int thread)> job) {
  job_ = &job;
  if (caller_ == PoolCaller::kWaits) {
    ServeUntilDone();
    return;
  }
  FpStateGuard fp_state;
  Bind(0);
  if (size_ > 1) epoch_.Raise();
  job(0);
  Barrier();
  Unbind();
}

void ThreadPool::ServeUntilDone() {
  uint32_t asked = asked_.value();
  epoch_.Raise();
  while (true) {
    asked_.Park(asked);
    ++asked;
    if (call_ == nullptr) return;
    (*call_)();
    call_ = nullptr;
    answered_.Raise();
  }
}

void ThreadPool::OnCaller(absl::FunctionRef<void()> fn) {
  if (caller_ == PoolCaller::kComputes) return fn();
  const uint32_t answered = answered_.value();
  call_ = &fn;
  asked_.Raise();
  answered_.Park(answered);
}

void ThreadPool::Barrier() {
  if (size_ == 1) return;
  const uint32_t generation = generation_.value();
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) == size_ - 1) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.Raise();
  } else {
    generation_.Await(generation);
  }
}

void ThreadPool::Work(int thread) {
  ComputeOnThisThread();
  FpStateGuard fp_state;
  TakeLongSlices();
  Bind(thread);
  uint32_t epoch = 0;
  while (true) {
    epoch_.Await(epoch);
    if (stop_.load(std::memory_order_acquire)) return;
    ++epoch;
    (*job_)(thread);
    Barrier();
    if (thread == 0) asked_.Raise();
  }
}

}  // namespace baton::engine::kernels
