#include "telemetry/background_thread.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <utility>

#include "absl/time/time.h"
#include "common/clock.h"

namespace baton::telemetry {
namespace {

// The thread gets a third of the time of one that serves where both want the same core.
constexpr int kBackgroundNice = 5;

}  // namespace

BackgroundThread::BackgroundThread(std::string name, std::function<void()> run)
    : thread_([this, name = std::move(name), run = std::move(run)] { Run(name, run); }) {}

BackgroundThread::~BackgroundThread() { thread_.join(); }

void BackgroundThread::Run(const std::string& name, const std::function<void()>& run) {
  pthread_setname_np(pthread_self(), name.c_str());
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kBackgroundNice);
  run();
  const absl::MutexLock lock(&mutex_);
  final_cpu_ns_ = ThreadCpuNs(pthread_self());
  has_ended_ = true;
}

bool BackgroundThread::WaitForEnd(int64_t timeout_ms) {
  const absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&has_ended_), absl::Milliseconds(timeout_ms));
}

int64_t BackgroundThread::cpu_ns() const {
  const absl::MutexLock lock(&mutex_);
  // native_handle() does not change the thread.
  return has_ended_ ? final_cpu_ns_ : ThreadCpuNs(const_cast<std::thread&>(thread_).native_handle());
}

}  // namespace baton::telemetry
