// A thread that runs what is put on it, one after the other: a stream of the stand-ins of CUDA and NCCL.
#ifndef BATON_TESTS_TASK_THREAD_H_
#define BATON_TESTS_TASK_THREAD_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace baton {

// Any thread may call it.
class TaskThread {
 public:
  TaskThread() : thread_([this] { Run(); }) {}
  // Waits until all has run.
  ~TaskThread() {
    Put(nullptr);
    thread_.join();
  }
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  // An empty task ends the thread.
  void Put(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    changed_.notify_all();
  }
  // Whether all that was put has run.
  bool is_idle() const {
    const std::lock_guard lock(mutex_);
    return tasks_.empty();
  }
  void AwaitIdle() const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return tasks_.empty(); });
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return !tasks_.empty(); });
      {
        // What it holds goes before the lock is taken again.
        const std::function<void()> task = std::move(tasks_.front());
        if (!task) return;
        lock.unlock();
        task();
      }
      lock.lock();
      tasks_.pop_front();
      changed_.notify_all();
    }
  }

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  // The first one runs, and its place stays until it has run.
  std::deque<std::function<void()>> tasks_;
  std::thread thread_;
};

}  // namespace baton

#endif  // BATON_TESTS_TASK_THREAD_H_
