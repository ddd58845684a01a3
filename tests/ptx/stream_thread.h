// The thread of an emulated stream: it runs the stream's host functions, and what is issued behind one that has not
// ended.
#ifndef BATON_TESTS_PTX_STREAM_THREAD_H_
#define BATON_TESTS_PTX_STREAM_THREAD_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace baton::ptx {

// Any thread may call it.
class StreamThread {
 public:
  StreamThread() : thread_([this] { Run(); }) {}
  // Waits until all has run.
  ~StreamThread();
  StreamThread(const StreamThread&) = delete;
  StreamThread& operator=(const StreamThread&) = delete;

  void Put(std::function<void()> task);
  // Whether all that was put has run.
  bool is_idle() const;
  void AwaitIdle() const;

 private:
  void Run();

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  // The first one runs. An empty one ends the thread.
  std::deque<std::function<void()>> tasks_;
  std::thread thread_;
};

// Whether the calling thread is in a host function, which may not call the driver.
bool IsInHostFunction();
void CallHostFunction(void (*function)(void*), void* argument);

}  // namespace baton::ptx

#endif  // BATON_TESTS_PTX_STREAM_THREAD_H_
