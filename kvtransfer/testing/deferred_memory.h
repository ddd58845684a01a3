// Host memory that behaves as a device's: whoever moves its bytes has to go through MemoryAccess and wait for the
// stream, because copies are carried out later, by a thread of the stream. What one shares, the others of this process
// can open.
#ifndef BATON_KVTRANSFER_TESTING_DEFERRED_MEMORY_H_
#define BATON_KVTRANSFER_TESTING_DEFERRED_MEMORY_H_

#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/memory_access.h"
#include "common/status.h"
#include "gtest/gtest.h"
#include "kvtransfer/mapped_region.h"

namespace baton::kvtransfer {

class DeferredMemory final : public MemoryAccess {
 public:
  absl::StatusOr<uint8_t*> Allocate(size_t bytes) override {
    BATON_ASSIGN_OR_RETURN(std::unique_ptr<MappedRegion> memory, MappedRegion::Create(bytes));
    memory_ = std::move(memory);
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

  absl::StatusOr<std::string> Share() override {
    if (refuses_sharing_) return absl::UnavailableError("the driver refuses");
    absl::MutexLock lock(&SharedMutex());
    std::string name = absl::StrCat("deferred ", Shared().size());
    Shared()[name] = memory_;
    return name;
  }
  absl::StatusOr<std::unique_ptr<Opened>> Open(std::string_view share) override {
    class OpenedRegion final : public Opened {
     public:
      explicit OpenedRegion(std::shared_ptr<MappedRegion> memory) : memory_(std::move(memory)) {}
      const uint8_t* base() const override { return memory_->base(); }

     private:
      const std::shared_ptr<MappedRegion> memory_;
    };
    absl::MutexLock lock(&SharedMutex());
    const auto found = Shared().find(std::string(share));
    std::shared_ptr<MappedRegion> memory = found == Shared().end() ? nullptr : found->second.lock();
    if (refuses_opening_ || memory == nullptr) return absl::InternalError("the driver opens nothing of that name");
    return std::make_unique<OpenedRegion>(std::move(memory));
  }
  absl::Status CopyWithin(uint8_t* to, const uint8_t* from, size_t bytes, Stream stream) override {
    if (fails_copies_) return absl::InternalError("the device has failed");
    ++copies_;
    Of(stream).Put([this, to, from, bytes] {
      while (holds_) std::this_thread::yield();
      std::memcpy(to, from, bytes);
    });
    return absl::OkStatus();
  }

  void RefuseSharing() { refuses_sharing_ = true; }
  void RefuseOpening() { refuses_opening_ = true; }
  void FailCopies() { fails_copies_ = true; }
  // While it holds, no copy from the host or from another region is carried out.
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

  static absl::Mutex& SharedMutex() {
    static absl::Mutex& mutex = *new absl::Mutex;
    return mutex;
  }
  // By name; under the mutex.
  static std::map<std::string, std::weak_ptr<MappedRegion>>& Shared() {
    static auto& shared = *new std::map<std::string, std::weak_ptr<MappedRegion>>;
    return shared;
  }

  std::shared_ptr<MappedRegion> memory_;
  bool refuses_sharing_ = false;
  bool refuses_opening_ = false;
  bool fails_copies_ = false;
  std::atomic<bool> holds_ = false;
  std::atomic<int64_t> copies_ = 0;
  std::atomic<int64_t> stagings_ = 0;
};

// Lives until the next test asks for one, so longer than the transports of its own.
inline DeferredMemory* NewDeferredMemory() {
  static const testing::TestInfo* last_test = nullptr;
  static std::vector<std::unique_ptr<DeferredMemory>> memories;
  const testing::TestInfo* const test = testing::UnitTest::GetInstance()->current_test_info();
  if (std::exchange(last_test, test) != test) memories.clear();
  memories.push_back(std::make_unique<DeferredMemory>());
  return memories.back().get();
}

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TESTING_DEFERRED_MEMORY_H_
