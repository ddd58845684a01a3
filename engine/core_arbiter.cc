#include "engine/core_arbiter.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/check.h"
#include "common/log.h"

namespace baton::engine {
namespace {

constexpr uint64_t kMagic = 0x6261746f6e617263;

// A holder that computes shows life this often.
constexpr int64_t kShowLifeNs = kNsPerMs;

// `fair`: whoever gives the mutex up hands it to the one that has waited longest, as the kernel does for mutexes that
// inherit priority (futex(2), FUTEX_UNLOCK_PI). Otherwise a process that runs takes it before one that has to wake up.
void InitMutex(pthread_mutex_t& mutex, bool fair) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  if (fair) pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
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

timespec ToTimespec(int64_t ns) { return {.tv_sec = ns / kNsPerSecond, .tv_nsec = ns % kNsPerSecond}; }

bool Lock(pthread_mutex_t& mutex, int64_t max_wait_ns) {
  if (max_wait_ns <= 0) return Took(mutex, pthread_mutex_trylock(&mutex));
  const timespec until = ToTimespec(MonotonicClock().Now() + max_wait_ns);
  int result = pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &until);
  if (result == EINVAL) {
    // Before Linux 5.14 a mutex that inherits priority knows the wall clock alone.
    const timespec wall_until = ToTimespec(absl::GetCurrentTimeNanos() + max_wait_ns);
    result = pthread_mutex_timedlock(&mutex, &wall_until);
  }
  return Took(mutex, result);
}

// The thread that holds the mutex, from the word that the kernel and the C library share (futex(2),
// "Priority-inheritance futexes"; get_robust_list(2)); 0 when it is free. The kernel hands a fair mutex to a thread
// that may not run for long after, so a note that the holder takes itself could come too late.
pid_t HolderOf(const pthread_mutex_t& mutex) {
  return static_cast<pid_t>(__atomic_load_n(&mutex.__data.__lock, __ATOMIC_RELAXED) & FUTEX_TID_MASK);
}

}  // namespace

bool IsStoppedThread(pid_t tid) {
  // proc(5): "PID (NAME) STATE ...", and the name may hold anything.
  std::ifstream file(absl::StrCat("/proc/", tid, "/stat"));
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= line.size()) return false;
  return line[name_end + 2] == 'T' || line[name_end + 2] == 't';
}

// What one process at a time can hold.
struct CoreArbiter::Place {
  pthread_mutex_t mutex;
  // Raised by the holder: signs of its life. Starts at 1.
  std::atomic<uint64_t> signs;

  // The holder alone counts, so no other one's sign can be lost.
  void ShowLife() { signs.store(signs.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  void Give() {
    ShowLife();
    pthread_mutex_unlock(&mutex);
  }
};

// A process that wants the cores holds `next` while it waits for them. So one process at a time is next; the others can
// tell by the mutex that there is one, and a holder that yields queues behind it. They become next in the order in
// which they came, so that two workers whose steps follow each other without a pause cannot keep a third from the
// cores.
struct CoreArbiter::Shared {
  uint64_t magic;
  alignas(64) Place next;
  alignas(64) Place cores;
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
  InitMutex(shared->next.mutex, /*fair=*/true);
  // Only the one that is next waits for the cores.
  InitMutex(shared->cores.mutex, /*fair=*/false);
  shared->next.signs = 1;
  shared->cores.signs = 1;
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
  const TimeNs asked = clock_.Now();
  const bool is_next =
      Take(shared_.next, next_holder_,
           {.max_wait_ns = options_.max_wait_ns, .silence_ns = kNextSilenceFactor * options_.silence_ns}, nullptr);
  // One that is not next has others before it, who may take the cores again and again: it waits for one period.
  const int64_t max_wait_ns = is_next ? options_.max_wait_ns : options_.period_ns;
  granted_ = Take(shared_.cores, cores_holder_, {.max_wait_ns = max_wait_ns, .silence_ns = options_.silence_ns},
                  is_next ? &shared_.next : nullptr);
  if (is_next) shared_.next.Give();
  if (options_.yields) PauseForDecodeTokens();
  entered_ = clock_.Now();
  wait_ns_ += entered_ - asked;
  if (granted_) ++grant_count_;
  if (!options_.yields) shared_.turn_began.store(entered_, std::memory_order_relaxed);
}

bool CoreArbiter::Take(Place& place, Holder& holder, const Patience& patience, Place* held) {
  const bool was_given_up = WasGivenUp(place, holder);
  // The waits are of this machine, whatever clock the arbiter was given.
  const TimeNs asked = MonotonicClock().Now();
  int64_t left_ns = was_given_up ? 0 : patience.max_wait_ns;
  uint64_t signs = 0;
  do {
    signs = place.signs.load(std::memory_order_relaxed);
    if (Lock(place.mutex, std::min(left_ns, patience.silence_ns))) {
      place.ShowLife();
      return true;
    }
    if (held != nullptr) held->ShowLife();
    left_ns = asked + patience.max_wait_ns - MonotonicClock().Now();
  } while (!was_given_up && left_ns > 0 &&
           (place.signs.load(std::memory_order_relaxed) != signs || !options_.is_stopped(HolderOf(place.mutex))));
  if (was_given_up) return false;
  holder.signs_when_given_up = signs;
  if (patience.max_wait_ns < options_.max_wait_ns) return false;
  spdlog::warn("no grant of the cores after {} ms: is a worker stopped? Computing without until it goes on",
               (MonotonicClock().Now() - asked) / kNsPerMs);
  return false;
}

bool CoreArbiter::WasGivenUp(const Place& place, const Holder& holder) {
  return holder.signs_when_given_up == place.signs.load(std::memory_order_relaxed);
}

void CoreArbiter::PauseForDecodeTokens() const {
  const TimeNs ended = shared_.turn_ended.load(std::memory_order_relaxed);
  const int64_t left_ns =
      std::min(ended + options_.decode_tokens_pause_ns - clock_.Now(), options_.decode_tokens_pause_ns);
  if (left_ns <= 0) return;
  const timespec time = ToTimespec(left_ns);
  nanosleep(&time, nullptr);
}

bool CoreArbiter::ShouldYield() {
  if (!options_.yields) return false;
  const TimeNs now = clock_.Now();
  if (granted_ && now - showed_life_ >= kShowLifeNs) {
    showed_life_ = now;
    shared_.cores.ShowLife();
  }
  const TimeNs period_end = shared_.turn_began.load(std::memory_order_relaxed) + options_.period_ns;
  if (now < std::max(entered_ + options_.min_quantum_ns, period_end)) return false;
  // Without a grant, a step makes way as soon as the holder of the cores goes on.
  return SomebodyIsNext() || (!granted_ && !WasGivenUp(shared_.cores, cores_holder_));
}

bool CoreArbiter::SomebodyIsNext() {
  if (!Lock(shared_.next.mutex, 0)) return true;
  pthread_mutex_unlock(&shared_.next.mutex);
  return false;
}

void CoreArbiter::ShowLife() {
  if (granted_) shared_.cores.ShowLife();
}

void CoreArbiter::Yield() {
  ++yield_count_;
  Leave();
  Enter();
}

void CoreArbiter::Leave() {
  if (!options_.yields) shared_.turn_ended.store(clock_.Now(), std::memory_order_relaxed);
  if (granted_) shared_.cores.Give();
  granted_ = false;
}

}  // namespace baton::engine
