// One communicator of two processes, of which one sends and the other receives, with a stream of its own.
//
//   state    | event                              | next     | what happens
//   ---------+------------------------------------+----------+----------------------------------------------
//   new      | Form                               | forming  | ncclCommInitRankConfig, non-blocking
//   forming  | the library is done                | ready    | what was queued is issued
//   ready    | Move                               | ready    | one group, once the last one is launched
//   forming, | a call or the library fails        | failed   | done() stays; the owner calls Close
//   ready    |                                    |          |
//   any      | Close                              | closing  | ncclCommAbort and the wait for the stream, on a
//            |                                    |          | thread: both may take long
//   closing  | that thread is done                | closed   | nothing reads or writes the memory any more
//
// NCCL matches the operations of a pair in the order in which each side issues them, so both ends issue the same
// batches in the same order. A failed operation holds its stream until the communicator is aborted. Nothing tells of a
// failure: the library is asked, every few milliseconds while anything is under way.
#ifndef BATON_KVTRANSFER_TRANSPORTS_NCCL_COMMUNICATOR_H_
#define BATON_KVTRANSFER_TRANSPORTS_NCCL_COMMUNICATOR_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "common/clock.h"
#include "common/memory_access.h"
#include "kvtransfer/transports/nccl/nccl_api.h"

namespace baton::kvtransfer {

// The ranks of the two processes. The owner of the memory sends, its reader receives.
inline constexpr int kOwnerRank = 0;
inline constexpr int kReaderRank = 1;

// Bytes at an address.
struct MovedBytes {
  uint8_t* address = nullptr;
  uint64_t bytes = 0;
};

// Used by one thread.
class Communicator {
 public:
  enum class State : uint8_t { kNew, kForming, kReady, kFailed, kClosing, kClosed };

  // `wake` is called from any thread when Poll has something to do. All references outlive the communicator.
  Communicator(const NcclApi& api, MemoryAccess& memory, const std::function<void()>& wake);
  // Closes it, and waits.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  void Form(const nccl::UniqueId& id, int rank);
  // Sends (the owner) or receives (the reader) one batch behind all earlier ones. The bytes may not change, or be used,
  // until done() counts it. Returns how many batches there are with it.
  uint64_t Move(std::vector<MovedBytes> batch);
  void Poll();
  void Close();

  State state() const { return state_; }
  // Why it failed.
  const absl::Status& error() const { return error_; }
  // How many batches have moved. No longer counts once it has failed or is closing.
  uint64_t done() const { return done_; }
  // How soon Poll wants to be called without being woken; kNever when it need not be.
  int64_t poll_interval_ns() const;

 private:
  // What the stream tells. Shared with calls that the stream makes after the communicator is gone.
  struct Landed {
    std::atomic<uint64_t> batches{0};
    std::function<void()> wake;
  };

  // Whether the last call has been carried out; fails the communicator when it could not.
  bool IsSettled();
  void Issue(const std::vector<MovedBytes>& batch);
  // Asks the stream to tell when the last batch has moved.
  void Watch();
  void Fail(const absl::Status& error);

  const NcclApi& api_;
  MemoryAccess& memory_;
  const std::function<void()>& wake_;
  const std::shared_ptr<Landed> landed_ = std::make_shared<Landed>();

  State state_ = State::kNew;
  int rank_ = kOwnerRank;
  nccl::Comm comm_ = nullptr;
  MemoryAccess::Stream stream_ = nullptr;
  absl::Status error_;
  std::deque<std::vector<MovedBytes>> waiting_;
  // A group was issued that the library may still be launching.
  bool launching_ = false;
  uint64_t moved_ = 0;
  uint64_t issued_ = 0;
  uint64_t done_ = 0;
  std::atomic<bool> closed_{false};
  std::thread closing_;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TRANSPORTS_NCCL_COMMUNICATOR_H_
