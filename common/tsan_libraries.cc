// Thread sanitizer builds only: what the sanitizer has to be told of the libraries.
//
// Debian's abseil is a shared library built without annotations, so the sanitizer does not see that its locks order
// anything and reports every guarded access as a race. The definitions of its functions here stand in front of the
// library's, call them, and say what they order. The thread that unlocks evaluates the conditions of others inside the
// library, under the lock; the sanitizer is told to ignore these reads.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)

#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "common/check.h"

extern "C" void AnnotateIgnoreReadsBegin(const char* file, int line);
extern "C" void AnnotateIgnoreReadsEnd(const char* file, int line);

namespace baton {
namespace {

template <typename Function>
Function* FindNext(const char* name) {
  auto* function = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
  BATON_CHECK(function != nullptr) << name;
  return function;
}

enum class Order { kAcquire, kRelease, kBoth };

// Calls `function`, which acquires `lock`, releases it, or both.
template <Order kOrder, typename Function, typename... Args>
auto Call(Function* function, void* lock, Args... args) {
  struct Scope {
    explicit Scope(void* scope_lock) : lock(scope_lock) {
      if (kOrder != Order::kAcquire) __tsan_release(lock);
      AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    }
    ~Scope() {
      AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
      if (kOrder != Order::kRelease) __tsan_acquire(lock);
    }
    void* lock;
  } scope(lock);
  return function(args...);
}

}  // namespace
}  // namespace baton

// Where a library that was loaded at run time (UCX's) has thread-local data, the sanitizer guesses the extent of a new
// block from its address: when the block happens to begin 16 bytes into a page, the 16 bytes before it are taken for a
// header of glibc 2.19, and what they hold for an address and a size to clear. The guess is switched off.
extern "C" const char* __tsan_default_options() { return "intercept_tls_get_addr=0"; }

// Abseil also counts the references of a Status inside, so that deleting the last one looks like a race.
extern "C" const char* __tsan_default_suppressions() {
  return "race:absl/status/status.h\nrace:absl::debian3::Status::UnrefNonInlined\n";
}

using absl::Condition;
using absl::CondVar;
using absl::Duration;
using absl::Mutex;
using absl::Notification;
using absl::Time;

// Each is declared under the library's own symbol name.
#define BATON_ORDERED(ORDER, LOCK, RESULT, SYMBOL, PARAMETERS, ...)                                                    \
  extern "C" RESULT SYMBOL PARAMETERS {                                                                                \
    static auto* const next = ::baton::FindNext<RESULT PARAMETERS>(#SYMBOL);                                           \
    return ::baton::Call<::baton::Order::ORDER>(next, const_cast<void*>(static_cast<const void*>(LOCK)), __VA_ARGS__); \
  }

BATON_ORDERED(kAcquire, m, void, _ZN4absl7debian35Mutex4LockEv, (Mutex * m), m)
BATON_ORDERED(kRelease, m, void, _ZN4absl7debian35Mutex6UnlockEv, (Mutex * m), m)
BATON_ORDERED(kAcquire, m, bool, _ZN4absl7debian35Mutex7TryLockEv, (Mutex * m), m)
BATON_ORDERED(kAcquire, m, void, _ZN4absl7debian35Mutex10ReaderLockEv, (Mutex * m), m)
BATON_ORDERED(kRelease, m, void, _ZN4absl7debian35Mutex12ReaderUnlockEv, (Mutex * m), m)
BATON_ORDERED(kAcquire, m, void, _ZN4absl7debian35Mutex8LockWhenERKNS0_9ConditionE, (Mutex * m, const Condition* c), m,
              c)
BATON_ORDERED(kAcquire, m, bool, _ZN4absl7debian35Mutex19LockWhenWithTimeoutERKNS0_9ConditionENS0_8DurationE,
              (Mutex * m, const Condition* c, Duration d), m, c, d)
BATON_ORDERED(kAcquire, m, bool, _ZN4absl7debian35Mutex20LockWhenWithDeadlineERKNS0_9ConditionENS0_4TimeE,
              (Mutex * m, const Condition* c, Time t), m, c, t)
BATON_ORDERED(kBoth, m, void, _ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE, (Mutex * m, const Condition* c), m, c)
BATON_ORDERED(kBoth, m, bool, _ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE,
              (Mutex * m, const Condition* c, Duration d), m, c, d)
BATON_ORDERED(kBoth, m, bool, _ZN4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE,
              (Mutex * m, const Condition* c, Time t), m, c, t)
BATON_ORDERED(kBoth, m, void, _ZN4absl7debian37CondVar4WaitEPNS0_5MutexE, (CondVar * v, Mutex* m), v, m)
BATON_ORDERED(kBoth, m, bool, _ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE,
              (CondVar * v, Mutex* m, Duration d), v, m, d)
BATON_ORDERED(kBoth, m, bool, _ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE,
              (CondVar * v, Mutex* m, Time t), v, m, t)
BATON_ORDERED(kRelease, n, void, _ZN4absl7debian312Notification6NotifyEv, (Notification * n), n)
BATON_ORDERED(kAcquire, n, void, _ZNK4absl7debian312Notification19WaitForNotificationEv, (const Notification* n), n)
BATON_ORDERED(kAcquire, n, bool, _ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE,
              (const Notification* n, Duration d), n, d)

#endif
#endif
