// State of the emulated device behind InterpretedDriver.
#ifndef BATON_TESTS_PTX_EMULATED_DEVICE_H_
#define BATON_TESTS_PTX_EMULATED_DEVICE_H_

#include <cuda.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/ptx/device_memory.h"
#include "tests/ptx/findings.h"
#include "tests/ptx/launch.h"
#include "tests/ptx/module.h"
#include "tests/ptx/program.h"
#include "tests/task_thread.h"

namespace baton::ptx {

inline constexpr uint32_t kSharedDefault = 48 << 10;
inline constexpr uint32_t kSharedOptIn = 163 << 10;

struct LoadedModule;

struct LoadedFunction {
  LoadedModule* module = nullptr;
  KernelProgram program;
  uint32_t most_dynamic_shared = 0;
};

struct LoadedModule {
  Module module;
  std::map<std::string, LoadedFunction> functions;
  std::vector<Allocation*> variables;
};

// An operation of a graph.
using GraphNode = std::function<CUresult()>;

struct Graph {
  std::vector<GraphNode> nodes;
};

struct Capture {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  struct Stream* origin = nullptr;
  std::vector<GraphNode> nodes;
  bool invalid = false;
  // Streams that joined by an event and that the origin has not waited for.
  std::set<Stream*> apart;
};

struct Stream {
  std::shared_ptr<Capture> capture;
  // From the first host function on.
  std::shared_ptr<TaskThread> thread;

  bool is_busy() const { return thread != nullptr && !thread->is_idle(); }
};

struct Event {
  std::weak_ptr<Capture> capture;
  Stream* stream = nullptr;
};

class EmulatedDevice {
 public:
  static EmulatedDevice& Get();

  // Held by every function of the driver, but not while it waits for a stream, nor by host functions.
  std::mutex mutex;
  bool initialized = false;
  int retained = 0;
  DeviceMemory memory;
  FindingList findings;
  bool failed = false;
  // What every call answers from now on, as after an error that a context does not survive.
  CUresult broken = CUDA_SUCCESS;
  Options options;
  std::string module_error;
  uint64_t instructions = 0;
  std::map<std::string, uint64_t> by_kernel;
  uint32_t launches = 0;
  std::map<void*, std::unique_ptr<LoadedModule>> modules;
  std::map<void*, std::unique_ptr<Stream>> streams;
  std::map<void*, std::unique_ptr<Event>> events;
  std::map<void*, std::unique_ptr<Graph>> graphs;
  std::map<void*, std::shared_ptr<Graph>> graph_execs;
  std::map<void*, std::unique_ptr<uint8_t[]>> host;
  std::map<void*, LoadedFunction*> functions;
  // What is open of other processes: addresses by handle.
  std::map<std::string, CUdeviceptr> opened;

  void Reset();
  // Why a call cannot go on: no cuInit, no context, a device that is broken, a launch that failed, or a thread that is
  // in a host function.
  CUresult Ready() const;
  bool Capturing() const;
  // Calls that a capture in global mode forbids.
  CUresult ForbiddenInCapture();
  // Runs it now, or when what the stream has to do before has ended, or records it where the stream captures.
  CUresult Submit(CUstream stream, GraphNode node);
  CUresult FindStream(CUstream handle, Stream** stream);
  // The allocation that holds [address, address + bytes), null where there is none.
  Allocation* Range(CUdeviceptr address, size_t bytes);
  absl::Status Load(const char* text, std::unique_ptr<LoadedModule>* loaded);

 private:
  absl::Status PlaceVariables(LoadedModule& loaded);
};

}  // namespace baton::ptx

#endif  // BATON_TESTS_PTX_EMULATED_DEVICE_H_
