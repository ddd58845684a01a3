// Host memory that behaves as a device's: whoever moves its bytes has to go through MemoryAccess and wait for the
// stream, because copies are carried out later, by a thread of the stream.
#ifndef BATON_KVTRANSFER_TESTING_DEFERRED_MEMORY_H_
#define BATON_KVTRANSFER_TESTING_DEFERRED_MEMORY_H_

#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/status.h"
#include "kvtransfer/mapped_region.h"
#include "kvtransfer/memory_access.h"

namespace baton::kvtransfer {

class DeferredMemory final : public MemoryAccess {
 public:
  absl::StatusOr<uint8_t*> Allocate(size_t bytes) override {
    BATON_ASSIGN_OR_RETURN(memory_, MappedRegion::Create(bytes));
    return memory_->base();
  }
  absl::StatusOr<std::unique_ptr<Staging>> AllocateStaging(size_t bytes) override {
    class HostStaging final : public Staging {
     public:
      explicit HostStaging(size_t bytes) : bytes_(bytes) {}
      uint8_t* bytes() override { return bytes_.data(); }

     private:
      std::vector<uint8_t> bytes_;
    };
    ++stagings_;
    return std::make_unique<HostStaging>(bytes);
  }
  absl::StatusOr<Stream> CreateStream() override { return new Queue; }
  absl::Status CallWhenDone(Stream stream, void (*function)(void*), void* argument) override {
    Of(stream).Put([function, argument] { function(argument); });
    return absl::OkStatus();
  }
  absl::Status CopyIn(uint8_t* to, absl::Span<const uint8_t> from, Stream stream) override {
    ++copies_;
    Of(stream).Put([this, to, bytes = std::vector<uint8_t>(from.begin(), from.end())] {
      while (holds_) std::this_thread::yield();
      std::memcpy(to, bytes.data(), bytes.size());
    });
    return absl::OkStatus();
  }
  absl::Status CopyOut(absl::Span<uint8_t> to, const uint8_t* from, Stream stream) override {
    ++copies_;
    Of(stream).Put([to, from] { std::memcpy(to.data(), from, to.size()); });
    return absl::OkStatus();
  }
  absl::Status Synchronize(Stream stream) override {
    std::atomic<bool> done = false;
    Of(stream).Put([&done] { done = true; });
    while (!done) std::this_thread::yield();
    return absl::OkStatus();
  }
  void DestroyStream(Stream stream) override { delete &Of(stream); }

  // While it holds, no copy from the host is carried out.
  void Hold(bool holds) { holds_ = holds; }
  int64_t copies() const { return copies_; }
  // Buffers that were ever allocated.
  int64_t stagings() const { return stagings_; }

 private:
  class Queue {
   public:
    ~Queue() {
      Put(nullptr);
      thread_.join();
    }
    void Put(std::function<void()> task) {
      absl::MutexLock lock(&mutex_);
      tasks_.push_back(std::move(task));
    }

   private:
    void Run() {
      while (true) {
        std::function<void()> task;
        {
          absl::MutexLock lock(&mutex_);
          const auto has_task = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !tasks_.empty(); };
          mutex_.Await(absl::Condition(&has_task));
          task = std::move(tasks_.front());
          tasks_.pop_front();
        }
        if (!task) return;
        task();
      }
    }

    absl::Mutex mutex_;
    std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
    std::thread thread_{[this] { Run(); }};
  };

  static Queue& Of(Stream stream) { return *static_cast<Queue*>(stream); }

  std::unique_ptr<MappedRegion> memory_;
  std::atomic<bool> holds_ = false;
  std::atomic<int64_t> copies_ = 0;
  std::atomic<int64_t> stagings_ = 0;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TESTING_DEFERRED_MEMORY_H_
