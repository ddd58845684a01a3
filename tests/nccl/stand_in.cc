// libbaton_nccl_stand_in.so: the C interface of NCCL, as far as kvtransfer/transports/nccl calls it, between processes
// of one machine, for tests. communicator.h says which rules it has of NCCL.
//
// Beside NCCL's functions it has streams of its own, which are threads, and the faults of faults.h. What is put on such
// a stream moves host memory. Any other stream is taken for one of the CUDA driver that the process has loaded, and
// moves memory of that driver's device (device.h).
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "kvtransfer/transports/nccl/nccl_types.h"
#include "tests/nccl/communicator.h"
#include "tests/nccl/device.h"
#include "tests/nccl/faults.h"
#include "tests/task_thread.h"

namespace baton::nccl_stand_in {
namespace {

constexpr int kOwnVersion = nccl::Version(2, 28, 9);
constexpr unsigned int kConfigMagic = 0xcafebeef;
constexpr int kRankCount = 2;

std::mutex communicators_mutex;
// Those that live, by their handles.
std::map<nccl::Comm, std::shared_ptr<Communicator>> communicators;

std::shared_ptr<Communicator> Find(nccl::Comm handle) {
  const std::lock_guard lock(communicators_mutex);
  const auto found = communicators.find(handle);
  return found == communicators.end() ? nullptr : found->second;
}

std::mutex streams_mutex;
// The stand-in's own that live.
std::set<void*> streams;

bool IsOwnStream(void* stream) {
  const std::lock_guard lock(streams_mutex);
  return streams.contains(stream);
}

PutOnStream PutterFor(void* stream) {
  if (IsOwnStream(stream)) {
    return [stream](std::function<void()> task) {
      static_cast<TaskThread*>(stream)->Put(std::move(task));
      return true;
    };
  }
  return [stream](std::function<void()> task) {
    Device* const device = Device::Get();
    return device != nullptr && device->Put(stream, std::move(task));
  };
}

// What a thread has put between ncclGroupStart and ncclGroupEnd, for each communicator in the order of its first call.
struct Pending {
  std::shared_ptr<Communicator> communicator;
  void* stream = nullptr;
  std::vector<Operation> operations;
};
thread_local int group_depth = 0;
thread_local std::vector<Pending> group;
thread_local nccl::Result group_error = nccl::kSuccess;

nccl::Result StartGroup() {
  if (group_depth++ == 0) group_error = nccl::kSuccess;
  return nccl::kSuccess;
}

nccl::Result EndGroup() {
  if (group_depth == 0) return nccl::kInvalidUsage;
  if (--group_depth > 0) return nccl::kSuccess;
  const std::vector<Pending> pending = std::exchange(group, {});
  if (group_error != nccl::kSuccess) return group_error;
  nccl::Result result = nccl::kSuccess;
  for (const Pending& one : pending) {
    const nccl::Result launched = one.communicator->Launch(one.operations, PutterFor(one.stream));
    if (launched == nccl::kSuccess || (launched == nccl::kInProgress && result != nccl::kSuccess)) continue;
    if (result == nccl::kSuccess || result == nccl::kInProgress) result = launched;
  }
  return result;
}

nccl::Result Put(const Operation& operation, int type, int peer, nccl::Comm handle, void* stream) {
  StartGroup();
  const std::shared_ptr<Communicator> communicator = Find(handle);
  nccl::Result result = nccl::kSuccess;
  if (communicator == nullptr || stream == nullptr || type != nccl::kUint8 || peer != 1 - communicator->rank()) {
    result = nccl::kInvalidArgument;
  } else if (const nccl::Result error = communicator->async_error(); error != nccl::kSuccess) {
    result = error == nccl::kInProgress ? nccl::kInvalidArgument : error;
  } else {
    if (group.empty() || group.back().communicator != communicator || group.back().stream != stream) {
      group.push_back({.communicator = communicator, .stream = stream});
    }
    group.back().operations.push_back(operation);
    group.back().operations.back().on_device = !IsOwnStream(stream);
  }
  if (group_error == nccl::kSuccess) group_error = result;
  const nccl::Result ended = EndGroup();
  return result == nccl::kSuccess ? ended : result;
}

}  // namespace
}  // namespace baton::nccl_stand_in

using namespace baton::nccl_stand_in;  // NOLINT: what follows is the interface of C.

extern "C" {

nccl::Result ncclGetVersion(int* version) {
  const char* const given = std::getenv("BATON_STAND_IN_NCCL_VERSION");
  *version = given == nullptr ? kOwnVersion : std::atoi(given);
  return nccl::kSuccess;
}

const char* ncclGetErrorString(nccl::Result result) {
  static const char* const kTexts[] = {"no error",       "unhandled cuda error",      "unhandled system error",
                                       "internal error", "invalid argument",          "invalid usage",
                                       "remote error",   "NCCL operation in progress"};
  const auto index = static_cast<size_t>(result);
  return index < std::size(kTexts) ? kTexts[index] : "unknown result code";
}

nccl::Result ncclGetUniqueId(nccl::UniqueId* id) { return DrawId(*id) ? nccl::kSuccess : nccl::kSystemError; }

nccl::Result ncclCommInitRankConfig(nccl::Comm* comm, int ranks, nccl::UniqueId id, int rank, nccl::Config* config) {
  if (comm == nullptr || config == nullptr || config->magic != kConfigMagic || config->size < sizeof(nccl::Config) ||
      ranks != kRankCount || rank < 0 || rank >= ranks) {
    return nccl::kInvalidArgument;
  }
  const auto communicator = std::make_shared<Communicator>(rank, /*is_blocking=*/config->blocking != 0);
  const nccl::Result result = communicator->Form(id);
  if (result != nccl::kSuccess && result != nccl::kInProgress) return result;
  *comm = reinterpret_cast<nccl::Comm>(communicator.get());
  const std::lock_guard lock(communicators_mutex);
  communicators[*comm] = communicator;
  return result;
}

nccl::Result ncclCommGetAsyncError(nccl::Comm comm, nccl::Result* error) {
  const std::shared_ptr<Communicator> communicator = Find(comm);
  if (communicator == nullptr) return nccl::kInvalidArgument;
  *error = communicator->async_error();
  return nccl::kSuccess;
}

nccl::Result ncclCommAbort(nccl::Comm comm) {
  const std::shared_ptr<Communicator> communicator = Find(comm);
  if (communicator == nullptr) return nccl::kInvalidArgument;
  communicator->Abort();
  const std::lock_guard lock(communicators_mutex);
  communicators.erase(comm);
  return nccl::kSuccess;
}

nccl::Result ncclGroupStart() { return StartGroup(); }
nccl::Result ncclGroupEnd() { return EndGroup(); }

nccl::Result ncclSend(const void* bytes, size_t count, int type, int peer, nccl::Comm comm, void* stream) {
  auto* const from = static_cast<uint8_t*>(const_cast<void*>(bytes));
  return Put({.is_send = true, .bytes = from, .count = count}, type, peer, comm, stream);
}

nccl::Result ncclRecv(void* bytes, size_t count, int type, int peer, nccl::Comm comm, void* stream) {
  return Put({.is_send = false, .bytes = static_cast<uint8_t*>(bytes), .count = count}, type, peer, comm, stream);
}

void* batonStandInStreamCreate() {
  auto* const stream = new baton::TaskThread;
  const std::lock_guard lock(streams_mutex);
  streams.insert(stream);
  return stream;
}
void batonStandInStreamCall(void* stream, void (*function)(void*), void* argument) {
  static_cast<baton::TaskThread*>(stream)->Put([function, argument] { function(argument); });
}
// Waits until all on it has ended.
void batonStandInStreamDestroy(void* stream) {
  {
    const std::lock_guard lock(streams_mutex);
    streams.erase(stream);
  }
  delete static_cast<baton::TaskThread*>(stream);
}

// As BATON_STAND_IN_NCCL_FAULT, from here on.
void batonStandInSetFault(const char* words) { SetFault(words); }

}  // extern "C"
