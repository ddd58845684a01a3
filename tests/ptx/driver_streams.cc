// Streams and events, captures and graphs. What is issued is done at once, unless a host function holds its stream:
// that runs on a thread of the stream's, as long as it likes, and what comes behind it waits.
#include "tests/ptx/driver_functions.h"
#include "tests/ptx/emulated_device.h"
#include "tests/ptx/host_function.h"

namespace baton::ptx {
namespace {

// Locks the device; the result says whether the call may go on.
struct Call {
  Call() : lock(device.mutex), result(device.Ready()) {}
  EmulatedDevice& device = EmulatedDevice::Get();
  std::lock_guard<std::mutex> lock;
  CUresult result;
};

template <class T>
T* FindIn(std::map<void*, std::unique_ptr<T>>& all, void* handle) {
  const auto found = all.find(handle);
  return found == all.end() ? nullptr : found->second.get();
}

CUresult CUDAAPI StreamCreate(CUstream* handle, unsigned) {
  Call call;
  if (call.result != CUDA_SUCCESS) return call.result;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto stream = std::make_unique<Stream>();
  *handle = reinterpret_cast<CUstream>(stream.get());
  call.device.streams[stream.get()] = std::move(stream);
  return CUDA_SUCCESS;
}

// Unlike CUDA it waits for the stream.
CUresult CUDAAPI StreamDestroy(CUstream handle) {
  // Ends after the call, without its lock.
  std::unique_ptr<Stream> gone;
  Call call;
  const auto found = call.device.streams.find(handle);
  if (found == call.device.streams.end()) return CUDA_ERROR_INVALID_HANDLE;
  gone = std::move(found->second);
  call.device.streams.erase(found);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI StreamSynchronize(CUstream handle) {
  std::shared_ptr<TaskThread> thread;
  {
    Call call;
    if (call.result != CUDA_SUCCESS) return call.result;
    Stream* stream = nullptr;
    if (const CUresult result = call.device.FindStream(handle, &stream); result != CUDA_SUCCESS) return result;
    if (stream != nullptr && stream->capture != nullptr) {
      stream->capture->invalid = true;
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (stream == nullptr || !stream->is_busy()) return CUDA_SUCCESS;
    thread = stream->thread;
  }
  thread->AwaitIdle();
  return Call().result;
}

CUresult CUDAAPI LaunchHostFunction(CUstream handle, CUhostFn function, void* argument) {
  Call call;
  if (call.result != CUDA_SUCCESS) return call.result;
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Stream* stream = nullptr;
  if (const CUresult result = call.device.FindStream(handle, &stream); result != CUDA_SUCCESS) return result;
  // A graph, and the default stream, run it where they are run.
  if (stream == nullptr || stream->capture != nullptr) {
    return call.device.Submit(handle, [function, argument] {
      CallHostFunction(function, argument);
      return CUDA_SUCCESS;
    });
  }
  if (stream->thread == nullptr) stream->thread = std::make_shared<TaskThread>();
  stream->thread->Put([function, argument] { CallHostFunction(function, argument); });
  return CUDA_SUCCESS;
}

CUresult CUDAAPI StreamWaitEvent(CUstream handle, CUevent event_handle, unsigned) {
  Call call;
  if (call.result != CUDA_SUCCESS) return call.result;
  Stream* stream = nullptr;
  if (const CUresult result = call.device.FindStream(handle, &stream); result != CUDA_SUCCESS) return result;
  Event* event = FindIn(call.device.events, event_handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const std::shared_ptr<Capture> capture = event->capture.lock();
  if (capture == nullptr) {
    // A capture may not depend on what is outside of it.
    if (stream == nullptr || stream->capture == nullptr) return CUDA_SUCCESS;
    stream->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (stream == nullptr) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  if (stream->capture != nullptr && stream->capture != capture) return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  if (stream != capture->origin && stream->capture == nullptr) {
    stream->capture = capture;
    capture->apart.insert(stream);
  } else if (stream == capture->origin) {
    capture->apart.erase(event->stream);
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI StreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  Call call;
  if (call.result != CUDA_SUCCESS) return call.result;
  Stream* stream = FindIn(call.device.streams, handle);
  if (stream == nullptr) return handle == nullptr ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  stream->capture = std::make_shared<Capture>();
  stream->capture->mode = mode;
  stream->capture->origin = stream;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI StreamEndCapture(CUstream handle, CUgraph* graph) {
  Call call;
  if (call.result != CUDA_SUCCESS) return call.result;
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *graph = nullptr;
  Stream* stream = FindIn(call.device.streams, handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  for (auto& [name, one] : call.device.streams) {
    if (one->capture == capture) one->capture = nullptr;
  }
  if (capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!capture->apart.empty()) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  auto made = std::make_unique<Graph>();
  made->nodes = capture->nodes;
  *graph = reinterpret_cast<CUgraph>(made.get());
  call.device.graphs[made.get()] = std::move(made);
  return CUDA_SUCCESS;
}

// The type of the flags is cuda.h's.
CUresult CUDAAPI GraphInstantiate(CUgraphExec* handle, CUgraph graph,
                                  unsigned long long) {  // NOLINT(google-runtime-int)
  Call call;
  if (call.result != CUDA_SUCCESS) return call.result;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Graph* source = FindIn(call.device.graphs, graph);
  if (source == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  auto made = std::make_shared<Graph>(*source);
  *handle = reinterpret_cast<CUgraphExec>(made.get());
  call.device.graph_execs[made.get()] = made;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI GraphLaunch(CUgraphExec handle, CUstream stream) {
  Call call;
  if (call.result != CUDA_SUCCESS) return call.result;
  const auto found = call.device.graph_execs.find(handle);
  if (found == call.device.graph_execs.end()) return CUDA_ERROR_INVALID_HANDLE;
  return call.device.Submit(stream, [graph = found->second] {
    for (const GraphNode& node : graph->nodes) {
      if (const CUresult result = node(); result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI GraphExecDestroy(CUgraphExec handle) {
  Call call;
  return call.device.graph_execs.erase(handle) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult CUDAAPI GraphDestroy(CUgraph handle) {
  Call call;
  return call.device.graphs.erase(handle) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult CUDAAPI EventCreate(CUevent* handle, unsigned) {
  Call call;
  if (call.result != CUDA_SUCCESS) return call.result;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto event = std::make_unique<Event>();
  *handle = reinterpret_cast<CUevent>(event.get());
  call.device.events[event.get()] = std::move(event);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI EventRecord(CUevent handle, CUstream stream_handle) {
  Call call;
  if (call.result != CUDA_SUCCESS) return call.result;
  Event* event = FindIn(call.device.events, handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Stream* stream = nullptr;
  if (const CUresult result = call.device.FindStream(stream_handle, &stream); result != CUDA_SUCCESS) return result;
  // Nobody needs an event that has yet to happen.
  if (stream != nullptr && stream->is_busy()) return CUDA_ERROR_NOT_SUPPORTED;
  event->stream = stream;
  event->capture.reset();
  if (stream != nullptr && stream->capture != nullptr) event->capture = stream->capture;
  return CUDA_SUCCESS;
}

// What was issued before an event has been done, so it has happened unless it belongs to a capture.
CUresult EventState(CUevent handle) {
  Call call;
  if (call.result != CUDA_SUCCESS) return call.result;
  const Event* event = FindIn(call.device.events, handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return event->capture.expired() ? CUDA_SUCCESS : CUDA_ERROR_CAPTURED_EVENT;
}

CUresult CUDAAPI EventSynchronize(CUevent handle) { return EventState(handle); }
CUresult CUDAAPI EventQuery(CUevent handle) { return EventState(handle); }

CUresult CUDAAPI EventDestroy(CUevent handle) {
  Call call;
  return call.device.events.erase(handle) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace

void AddStreamFunctions(engine::cuda::DriverApi& api) {
  api.stream_create = &StreamCreate;
  api.stream_destroy = &StreamDestroy;
  api.stream_synchronize = &StreamSynchronize;
  api.launch_host_function = &LaunchHostFunction;
  api.stream_wait_event = &StreamWaitEvent;
  api.event_create = &EventCreate;
  api.event_record = &EventRecord;
  api.event_synchronize = &EventSynchronize;
  api.event_query = &EventQuery;
  api.event_destroy = &EventDestroy;
}

void AddGraphFunctions(engine::cuda::DriverApi& api) {
  api.stream_begin_capture = &StreamBeginCapture;
  api.stream_end_capture = &StreamEndCapture;
  api.graph_instantiate = &GraphInstantiate;
  api.graph_launch = &GraphLaunch;
  api.graph_exec_destroy = &GraphExecDestroy;
  api.graph_destroy = &GraphDestroy;
}

}  // namespace baton::ptx
