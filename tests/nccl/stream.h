// A stream of the stand-in: a thread that runs what is put on it, one after the other.
#ifndef BATON_TESTS_NCCL_STREAM_H_
#define BATON_TESTS_NCCL_STREAM_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace baton::nccl_stand_in {

// Any thread may call it.
class Stream {
 public:
  Stream() : thread_([this] { Run(); }) {}
  // Waits until all has run.
  ~Stream() {
    Put(nullptr);
    thread_.join();
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // An empty task ends the thread.
  void Put(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    changed_.notify_one();
  }

 private:
  void Run() {
    while (true) {
      std::function<void()> task;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return !tasks_.empty(); });
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      if (!task) return;
      task();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::thread thread_;
};

}  // namespace baton::nccl_stand_in

#endif  // BATON_TESTS_NCCL_STREAM_H_
