#include "engine/core_arbiter.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/log.h"

namespace baton::engine {
namespace {

constexpr uint64_t kMagic = 0x6261746f6e617262;

void InitMutex(pthread_mutex_t& mutex) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  // When a holder dies, the next process gets the mutex.
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  BATON_CHECK(pthread_mutex_init(&mutex, &attributes) == 0);
  pthread_mutexattr_destroy(&attributes);
}

// Whether the calling thread has the mutex now. It guards no data that a dead holder could have left half-written.
bool Took(pthread_mutex_t& mutex, int result) {
  if (result == EOWNERDEAD) result = pthread_mutex_consistent(&mutex);
  return result == 0;
}

bool Lock(pthread_mutex_t& mutex, int64_t max_wait_ns) {
  const TimeNs until = MonotonicClock().Now() + max_wait_ns;
  const timespec time{.tv_sec = until / kNsPerSecond, .tv_nsec = until % kNsPerSecond};
  return Took(mutex, pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &time));
}

}  // namespace

// A process that wants the cores holds `next` while it waits for them. So one process at a time is next; the others can
// tell by the mutex that there is one, and a holder that yields queues behind it.
struct CoreArbiter::Shared {
  uint64_t magic;
  alignas(64) pthread_mutex_t next;
  alignas(64) pthread_mutex_t cores;
  // When a holder that does not yield last entered, and last left.
  alignas(64) std::atomic<TimeNs> turn_began;
  std::atomic<TimeNs> turn_ended;
};

absl::StatusOr<int> CreateCoreArbiter() {
  using Shared = CoreArbiter::Shared;
  // Inherited by children, unlike every other descriptor.
  const int fd = memfd_create("baton-cores", 0);
  if (fd < 0 || ftruncate(fd, sizeof(Shared)) != 0) {
    return absl::InternalError(absl::StrCat("sharing the cores: ", std::strerror(errno)));
  }
  void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return absl::InternalError(absl::StrCat("sharing the cores: ", std::strerror(errno)));
  auto* const shared = static_cast<Shared*>(memory);
  InitMutex(shared->next);
  InitMutex(shared->cores);
  shared->magic = kMagic;
  munmap(memory, sizeof(Shared));
  return fd;
}

absl::StatusOr<std::unique_ptr<CoreArbiter>> CoreArbiter::Open(int fd, const CoreArbiterOptions& options,
                                                               const Clock& clock) {
  struct stat file;
  void* memory = MAP_FAILED;
  if (fstat(fd, &file) == 0 && file.st_size == sizeof(Shared)) {
    memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  if (memory == MAP_FAILED || static_cast<Shared*>(memory)->magic != kMagic) {
    if (memory != MAP_FAILED) munmap(memory, sizeof(Shared));
    return absl::InvalidArgumentError(absl::StrCat("descriptor ", fd, " is not a core arbiter of this version"));
  }
  return absl::WrapUnique(new CoreArbiter(*static_cast<Shared*>(memory), options, clock));
}

CoreArbiter::~CoreArbiter() { munmap(&shared_, sizeof(Shared)); }

void CoreArbiter::Enter() {
  granted_ = false;
  if (Lock(shared_.next, options_.max_wait_ns)) {
    granted_ = Lock(shared_.cores, options_.max_wait_ns);
    pthread_mutex_unlock(&shared_.next);
  }
  if (!granted_) {
    spdlog::warn("no grant of the cores after {} s: is a worker stopped? Computing without",
                 options_.max_wait_ns / kNsPerSecond);
  }
  if (options_.yields) PauseForDecodeTokens();
  entered_ = clock_.Now();
  if (!options_.yields) shared_.turn_began.store(entered_, std::memory_order_relaxed);
}

void CoreArbiter::PauseForDecodeTokens() const {
  const TimeNs ended = shared_.turn_ended.load(std::memory_order_relaxed);
  const int64_t left_ns =
      std::min(ended + options_.decode_tokens_pause_ns - clock_.Now(), options_.decode_tokens_pause_ns);
  if (left_ns <= 0) return;
  const timespec time{.tv_sec = left_ns / kNsPerSecond, .tv_nsec = left_ns % kNsPerSecond};
  nanosleep(&time, nullptr);
}

bool CoreArbiter::ShouldYield() {
  if (!options_.yields) return false;
  const TimeNs period_end = shared_.turn_began.load(std::memory_order_relaxed) + options_.period_ns;
  if (clock_.Now() < std::max(entered_ + options_.min_quantum_ns, period_end)) return false;
  if (!Took(shared_.next, pthread_mutex_trylock(&shared_.next))) return true;
  pthread_mutex_unlock(&shared_.next);
  return false;
}

void CoreArbiter::Yield() {
  Leave();
  Enter();
}

void CoreArbiter::Leave() {
  if (!options_.yields) shared_.turn_ended.store(clock_.Now(), std::memory_order_relaxed);
  if (granted_) pthread_mutex_unlock(&shared_.cores);
  granted_ = false;
}

}  // namespace baton::engine
