#include "engine/kernels/thread_pool.h"

#include <sched.h>
#include <xmmintrin.h>

#include "absl/types/span.h"
#include "common/check.h"
#include "engine/kernels/dispatch.h"

namespace baton::engine::kernels {
namespace {

// About 20 to 50 us: longer than a balanced phase's imbalance, shorter than a time slice that a neighbour could use.
constexpr int kSpins = 600;

// Returns when `word` differs from `old`.
void AwaitChange(const std::atomic<uint32_t>& word, uint32_t old) {
  for (int i = 0; i < kSpins; ++i) {
    if (word.load(std::memory_order_acquire) != old) return;
    _mm_pause();
  }
  // wait() may return only on a change, but it parks on a futex and wakes for nothing now and then.
  while (word.load(std::memory_order_acquire) == old) word.wait(old, std::memory_order_acquire);
}

// A sequentially consistent exchange: the store must be visible before notify looks for sleepers.
void Raise(std::atomic<uint32_t>& word) {
  word.fetch_add(1, std::memory_order_seq_cst);
  word.notify_all();
}

// Of the calling thread; none when there are more than a cpu_set_t holds.
std::vector<int> UsableCores() {
  cpu_set_t set;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

// Fails when cores were taken away since: the calling thread then runs where it may.
void RunOn(absl::Span<const int> cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

}  // namespace

ThreadPool::ThreadPool(int threads) : size_(threads) {
  BATON_CHECK(threads >= 1) << threads;
  if (threads > 1) cores_ = UsableCores();
  if (cores_.size() != static_cast<size_t>(threads)) cores_.clear();
  for (int t = 1; t < threads; ++t) threads_.emplace_back([this, t] { Work(t); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_release);
  Raise(epoch_);
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::Bind(int thread) const {
  if (!cores_.empty()) RunOn({&cores_[static_cast<size_t>(thread)], 1});
}

void ThreadPool::Unbind() const {
  if (!cores_.empty()) RunOn(cores_);
}

void ThreadPool::Run(absl::FunctionRef<void(int thread)> job) {
  FpStateGuard fp_state;
  Bind(0);
  job_ = &job;
  if (size_ > 1) Raise(epoch_);
  job(0);
  Barrier();
  Unbind();
}

void ThreadPool::Barrier() {
  if (size_ == 1) return;
  const uint32_t generation = generation_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) == size_ - 1) {
    arrived_.store(0, std::memory_order_relaxed);
    Raise(generation_);
  } else {
    AwaitChange(generation_, generation);
  }
}

void ThreadPool::Work(int thread) {
  FpStateGuard fp_state;
  Bind(thread);
  uint32_t epoch = 0;
  while (true) {
    AwaitChange(epoch_, epoch);
    if (stop_.load(std::memory_order_acquire)) return;
    ++epoch;
    (*job_)(thread);
    Barrier();
  }
}

}  // namespace baton::engine::kernels
