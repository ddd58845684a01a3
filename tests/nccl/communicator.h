// A communicator of the stand-in: two ranks, point-to-point operations alone.
//
// What it has of NCCL's rules:
// - Operations between two ranks match in the order in which they are put on their streams, and run when it is their
//   turn on the stream. A send ends no sooner than its receive has come, so an order that can block does block.
// - Sends and receives of one group make progress together.
// - A non-blocking communicator is in progress while it forms and while a group is launched. Until then it takes no
//   other call than for its error, or to abort.
// - A failure is asynchronous and stays: every later call returns it. The operation that failed holds its stream until
//   the communicator is aborted, as a kernel does that waits for its peer.
// - Abort ends all operations. What they were to receive is undefined.
//
// What it has of its own: sizes that do not match are ncclInvalidUsage at both ranks, where NCCL hangs or worse. Two
// ranks of one process, and of one device, are allowed.
#ifndef BATON_TESTS_NCCL_COMMUNICATOR_H_
#define BATON_TESTS_NCCL_COMMUNICATOR_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "kvtransfer/transports/nccl/nccl_types.h"
#include "tests/nccl/rendezvous.h"
#include "tests/task_thread.h"

namespace baton::nccl_stand_in {

// Puts a task on a stream, where it has its turn. False when that cannot be done.
using PutOnStream = std::function<bool(std::function<void()> task)>;

struct Operation {
  bool is_send = false;
  // Whether the bytes are an address of the device.
  bool on_device = false;
  uint8_t* bytes = nullptr;
  uint64_t count = 0;
};

// Any thread may call it. Operations on streams share it, so that it outlives them.
class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  Communicator(int rank, bool is_blocking) : rank_(rank), is_blocking_(is_blocking) {}
  ~Communicator();

  // ncclInProgress at once for one that does not block.
  nccl::Result Form(const nccl::UniqueId& id);
  // The operations of one group on one stream.
  nccl::Result Launch(std::vector<Operation> group, const PutOnStream& put);
  nccl::Result async_error() const;
  void Abort();
  int rank() const { return rank_; }

 private:
  void FormNow(const nccl::UniqueId& id);
  bool is_aborted() const;
  // On a stream.
  void Run(const std::vector<Operation>& group);
  void RunAll(const std::vector<Operation>& group, bool sends);
  // These return what went wrong, and ncclSuccess also when the communicator is aborted.
  nccl::Result Send(const Operation& operation) const;
  nccl::Result Receive(const Operation& operation) const;
  // Holds the stream until the communicator is aborted.
  void Hang();
  void Fail(nccl::Result error);

  const int rank_;
  const bool is_blocking_;
  // Forms and launches, for one that does not block.
  std::unique_ptr<TaskThread> launcher_;

  mutable std::mutex mutex_;
  std::condition_variable aborting_;
  bool aborted_ = false;
  nccl::Result error_ = nccl::kSuccess;
  Connection connection_;
};

}  // namespace baton::nccl_stand_in

#endif  // BATON_TESTS_NCCL_COMMUNICATOR_H_
