#include "tests/nccl/communicator.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <thread>
#include <utility>

#include "tests/nccl/device.h"
#include "tests/nccl/faults.h"

namespace baton::nccl_stand_in {
namespace {

constexpr uint64_t kChunkBytes = 64u << 10;

bool ReadAll(int fd, void* bytes, uint64_t count) {
  return count == 0 || recv(fd, bytes, count, MSG_WAITALL) == static_cast<ssize_t>(count);
}

bool WriteAll(int fd, const void* bytes, uint64_t count) {
  const char* next = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t sent = send(fd, next, count, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    next += sent;
    count -= static_cast<uint64_t>(sent);
  }
  return true;
}

}  // namespace

Communicator::~Communicator() {
  for (const int fd : {connection_.sending, connection_.receiving}) {
    if (fd >= 0) close(fd);
  }
}

nccl::Result Communicator::Form(const nccl::UniqueId& id) {
  const Fault fault = FaultOfInit();
  if (fault == Fault::kInitFails) return nccl::kSystemError;
  error_ = nccl::kInProgress;
  if (!is_blocking_) launcher_ = std::make_unique<TaskThread>();
  if (fault == Fault::kInitHangs) return nccl::kInProgress;
  if (is_blocking_) {
    FormNow(id);
    return async_error();
  }
  launcher_->Put([this, id] { FormNow(id); });
  return nccl::kInProgress;
}

void Communicator::FormNow(const nccl::UniqueId& id) {
  const std::optional<Connection> connection = Meet(id, rank_, [this] { return is_aborted(); });
  const std::lock_guard lock(mutex_);
  if (connection.has_value()) connection_ = *connection;
  if (error_ == nccl::kInProgress) error_ = connection.has_value() ? nccl::kSuccess : nccl::kRemoteError;
}

nccl::Result Communicator::Launch(std::vector<Operation> group, const PutOnStream& put) {
  auto run = [self = shared_from_this(), group = std::move(group)] { self->Run(group); };
  const std::lock_guard lock(mutex_);
  if (error_ == nccl::kInProgress) return nccl::kInvalidArgument;
  if (error_ != nccl::kSuccess) return error_;
  if (is_blocking_) return put(std::move(run)) ? nccl::kSuccess : nccl::kUnhandledCudaError;
  error_ = nccl::kInProgress;
  launcher_->Put([this, put, run = std::move(run)] {
    const nccl::Result launched = put(run) ? nccl::kSuccess : nccl::kUnhandledCudaError;
    const std::lock_guard inner(mutex_);
    if (error_ == nccl::kInProgress) error_ = launched;
  });
  return nccl::kInProgress;
}

nccl::Result Communicator::async_error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

bool Communicator::is_aborted() const {
  const std::lock_guard lock(mutex_);
  return aborted_;
}

void Communicator::Abort() {
  {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    for (const int fd : {connection_.sending, connection_.receiving}) {
      if (fd >= 0) shutdown(fd, SHUT_RDWR);
    }
    aborting_.notify_all();
  }
  launcher_.reset();
  // A connection that was made meanwhile.
  const std::lock_guard lock(mutex_);
  for (const int fd : {connection_.sending, connection_.receiving}) {
    if (fd >= 0) shutdown(fd, SHUT_RDWR);
  }
}

void Communicator::Run(const std::vector<Operation>& group) {
  const auto is_send = [](const Operation& operation) { return operation.is_send; };
  const bool has_both =
      std::any_of(group.begin(), group.end(), is_send) && !std::all_of(group.begin(), group.end(), is_send);
  std::thread sends;
  if (has_both) {
    sends = std::thread([&] { RunAll(group, true); });
  } else {
    RunAll(group, true);
  }
  RunAll(group, false);
  if (has_both) sends.join();
}

void Communicator::RunAll(const std::vector<Operation>& group, bool sends) {
  for (const Operation& operation : group) {
    if (operation.is_send != sends) continue;
    if (is_aborted()) return;
    const nccl::Result result = sends ? Send(operation) : Receive(operation);
    if (result == nccl::kSuccess) continue;
    Fail(result);
    return Hang();
  }
}

nccl::Result Communicator::Send(const Operation& operation) const {
  const int fd = connection_.sending;
  uint64_t expected = 0;
  if (!ReadAll(fd, &expected, sizeof(expected)) || !WriteAll(fd, &operation.count, sizeof(operation.count))) {
    return nccl::kRemoteError;
  }
  if (expected != operation.count) return nccl::kInvalidUsage;
  if (!operation.on_device) {
    return WriteAll(fd, operation.bytes, operation.count) ? nccl::kSuccess : nccl::kRemoteError;
  }
  std::vector<uint8_t> chunk(std::min(kChunkBytes, operation.count));
  for (uint64_t done = 0; done < operation.count;) {
    const uint64_t bytes = std::min(kChunkBytes, operation.count - done);
    if (!Device::Get()->CopyOut(chunk.data(), operation.bytes + done, bytes)) return nccl::kUnhandledCudaError;
    if (!WriteAll(fd, chunk.data(), bytes)) return nccl::kRemoteError;
    done += bytes;
  }
  return nccl::kSuccess;
}

nccl::Result Communicator::Receive(const Operation& operation) const {
  const int fd = connection_.receiving;
  uint64_t offered = 0;
  if (!WriteAll(fd, &operation.count, sizeof(operation.count)) || !ReadAll(fd, &offered, sizeof(offered))) {
    return nccl::kRemoteError;
  }
  if (offered != operation.count) return nccl::kInvalidUsage;
  std::vector<uint8_t> chunk(operation.on_device ? std::min(kChunkBytes, operation.count) : 0);
  for (uint64_t done = 0; done < operation.count;) {
    const uint64_t bytes = std::min(kChunkBytes, operation.count - done);
    uint8_t* const to = operation.on_device ? chunk.data() : operation.bytes + done;
    if (!ReadAll(fd, to, bytes)) return nccl::kRemoteError;
    switch (FaultOfBytes(bytes)) {
      case Fault::kNetworkError:
        return nccl::kRemoteError;
      case Fault::kSilentPeer:
        // Told apart from a failure by what async_error() says: nothing.
        return nccl::kInProgress;
      case Fault::kBitFlip:
        *to ^= 1;
        std::fprintf(stderr, "the stand-in of NCCL has flipped a bit\n");
        break;
      case Fault::kProcessDies:
        kill(getpid(), SIGKILL);
        break;
      default:
        break;
    }
    if (operation.on_device && !Device::Get()->CopyIn(operation.bytes + done, to, bytes)) {
      return nccl::kUnhandledCudaError;
    }
    done += bytes;
  }
  return nccl::kSuccess;
}

void Communicator::Hang() {
  std::unique_lock lock(mutex_);
  aborting_.wait(lock, [this] { return aborted_; });
}

void Communicator::Fail(nccl::Result error) {
  const std::lock_guard lock(mutex_);
  if (error == nccl::kInProgress || aborted_) return;
  error_ = error;
}

}  // namespace baton::nccl_stand_in
