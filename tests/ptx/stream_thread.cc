#include "tests/ptx/stream_thread.h"

#include <utility>

namespace baton::ptx {
namespace {

thread_local bool in_host_function = false;

}  // namespace

StreamThread::~StreamThread() {
  Put(nullptr);
  thread_.join();
}

void StreamThread::Put(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  changed_.notify_all();
}

bool StreamThread::is_idle() const {
  const std::lock_guard lock(mutex_);
  return tasks_.empty();
}

void StreamThread::AwaitIdle() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return tasks_.empty(); });
}

void StreamThread::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !tasks_.empty(); });
    const std::function<void()> task = tasks_.front();
    if (!task) return;
    lock.unlock();
    task();
    lock.lock();
    tasks_.pop_front();
    changed_.notify_all();
  }
}

bool IsInHostFunction() { return in_host_function; }

void CallHostFunction(void (*function)(void*), void* argument) {
  in_host_function = true;
  function(argument);
  in_host_function = false;
}

}  // namespace baton::ptx
