#include "worker/page_populator.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "common/log.h"
#include "common/populate_pages.h"

namespace baton::worker {
namespace {

// Populating a piece takes a fraction of a millisecond. Threads that change the address space wait that long at most.
constexpr size_t kPieceBytes = size_t{256} << 10;
constexpr int kLowPriority = 10;

// On a busy core this priority gets about a tenth of the time. The idle class would be wrong: an idle thread could hold
// the lock of the address space for seconds.
void RunAtLowPriority() { setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kLowPriority); }

}  // namespace

PagePopulator::PagePopulator(absl::Span<uint8_t> memory, size_t ahead_bytes)
    : memory_(memory), ahead_bytes_(ahead_bytes), thread_([this] { Run(); }) {}

PagePopulator::~PagePopulator() {
  {
    const absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void PagePopulator::SetUsed(size_t bytes) {
  const absl::MutexLock lock(&mutex_);
  used_bytes_ = bytes;
}

void PagePopulator::Run() {
  RunAtLowPriority();
  size_t done = 0;
  while (done < memory_.size()) {
    {
      const absl::MutexLock lock(&mutex_);
      const auto has_work = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || used_bytes_ + ahead_bytes_ > done;
      };
      mutex_.Await(absl::Condition(&has_work));
      if (stopping_) return;
    }
    const size_t bytes = std::min(kPieceBytes, memory_.size() - done);
    if (const absl::Status status = PopulatePages(memory_.subspan(done, bytes)); !status.ok()) {
      spdlog::warn("memory for the KV pool ran out after {} of {} MiB, {}: give less --kv-memory", done >> 20,
                   memory_.size() >> 20, std::string(status.message()));
      return;
    }
    done += bytes;
  }
}

}  // namespace baton::worker
