// The driver's functions over the emulated device.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "tests/ptx/test_device.h"

namespace baton::ptx {
namespace {

using testing::ElementsAre;

constexpr const char* kAddOne = R"(.version 9.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 room[];
.entry add_one(.param .u64 at, .param .u32 by) .maxntid 64 {
  .reg .b64 %rd<3>; .reg .b32 %r<5>;
  mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [at]; mad.wide.u32 %rd1, %r1, 4, %rd1;
  ld.param.u32 %r3, [by]; ld.global.u32 %r2, [%rd1]; add.u32 %r2, %r2, %r3; st.global.u32 [%rd1], %r2;
  mov.u32 %r4, room; mad.lo.u32 %r4, %r1, 4, %r4; st.shared.u32 [%r4], %r2;
  ret;
})";

class DriverTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    module = Load(kAddOne);
    add = Function(module, "add_one");
    values = ToDevice(std::vector<uint32_t>{1, 2, 3, 4});
    ASSERT_EQ(api.stream_create(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  }
  CUresult LaunchOn(CUstream on, uint32_t by, unsigned threads = 1, unsigned shared = 16) {
    void* params[] = {&values, &by};
    return api.launch_kernel(add, 1, 1, 1, threads, 1, 1, shared, on, params, nullptr);
  }

  CUmodule module = nullptr;
  CUfunction add = nullptr;
  CUdeviceptr values = 0;
  CUstream stream = nullptr;
};

TEST_F(DriverTest, EveryFunctionOfTheTableIsThere) {
#define BATON_PTX_EXPECT_MEMBER(member, function) EXPECT_NE(api.member, nullptr) << #member;
  BATON_CUDA_DRIVER_FUNCTIONS(BATON_PTX_EXPECT_MEMBER)
#undef BATON_PTX_EXPECT_MEMBER
}

TEST_F(DriverTest, NeedsInitAndAContext) {
  ResetDriver();
  int count = 0;
  EXPECT_EQ(api.device_count(&count), CUDA_ERROR_NOT_INITIALIZED);
  ASSERT_EQ(api.init(0), CUDA_SUCCESS);
  ASSERT_EQ(api.device_count(&count), CUDA_SUCCESS);
  EXPECT_EQ(count, 1);
  CUdeviceptr address = 0;
  EXPECT_EQ(api.memory_alloc(&address, 16), CUDA_ERROR_INVALID_CONTEXT);
  CUdevice device = 0;
  EXPECT_EQ(api.device_get(&device, 1), CUDA_ERROR_INVALID_DEVICE);
  char name[32] = {};
  ASSERT_EQ(api.device_name(name, sizeof(name), 0), CUDA_SUCCESS);
  EXPECT_STREQ(name, "PTX interpreter");
  int major = 0;
  ASSERT_EQ(api.device_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0), CUDA_SUCCESS);
  EXPECT_EQ(major, 8);
}

TEST_F(DriverTest, MemoryHasALimitAndBounds) {
  SetMemoryLimit(1000);
  CUdeviceptr address = 0;
  EXPECT_EQ(api.memory_alloc(&address, 1001), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(api.memory_alloc(&address, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(api.memory_alloc(&address, 512), CUDA_SUCCESS);
  EXPECT_EQ(api.memory_alloc(&address, 512), CUDA_ERROR_OUT_OF_MEMORY);
  size_t free = 0;
  size_t total = 0;
  ASSERT_EQ(api.memory_info(&free, &total), CUDA_SUCCESS);
  EXPECT_EQ(total, 1000U);
  EXPECT_EQ(free, 1000U - 512 - 16);
  EXPECT_EQ(api.memory_free(address + 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(api.set_bytes_async(address + 4, 0, 512, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(api.memory_free(address), CUDA_SUCCESS);
  EXPECT_EQ(api.memory_free(address), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(api.memory_info(&free, &total), CUDA_SUCCESS);
  EXPECT_EQ(free, 1000U - 16);
  EXPECT_EQ(LiveAllocations(), 1U);
}

TEST_F(DriverTest, HostFunctionsAreCalledBehindWhatWasIssuedBefore) {
  std::vector<uint32_t> seen(4);
  ASSERT_EQ(LaunchOn(stream, 1, 4), CUDA_SUCCESS);
  ASSERT_EQ(api.copy_to_host_async(seen.data(), values, 16, stream), CUDA_SUCCESS);
  uint32_t called_with = 0;
  std::pair<const std::vector<uint32_t>*, uint32_t*> argument = {&seen, &called_with};
  const auto function = [](void* about) {
    const auto& [copied, called] = *static_cast<decltype(argument)*>(about);
    *called = (*copied)[0];
  };
  ASSERT_EQ(api.launch_host_function(stream, function, &argument), CUDA_SUCCESS);
  ASSERT_EQ(api.stream_synchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(called_with, 2U);
  EXPECT_EQ(api.launch_host_function(stream, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
}

// A function that holds its stream until it is told to end.
class HeldStreamTest : public DriverTest {
 protected:
  struct Hold {
    std::atomic<bool> has_begun = false;
    std::atomic<bool> may_end = false;
  };

  void SetUp() override {
    DriverTest::SetUp();
    const auto hold = [](void* argument) {
      auto& state = *static_cast<Hold*>(argument);
      state.has_begun = true;
      while (!state.may_end) std::this_thread::yield();
    };
    ASSERT_EQ(api.launch_host_function(stream, hold, &hold_), CUDA_SUCCESS);
    while (!hold_.has_begun) std::this_thread::yield();
  }
  void TearDown() override {
    hold_.may_end = true;
    EXPECT_EQ(api.stream_synchronize(stream), CUDA_SUCCESS);
    DriverTest::TearDown();
  }
  void Release() {
    hold_.may_end = true;
    ASSERT_EQ(api.stream_synchronize(stream), CUDA_SUCCESS);
  }

  Hold hold_;
};

TEST_F(HeldStreamTest, WhatIsIssuedBehindAHostFunctionWaitsForItAndOtherStreamsDoNot) {
  std::vector<uint32_t> bytes = {10, 20, 30, 40};
  std::vector<uint32_t> seen(4);
  ASSERT_EQ(api.copy_to_device_async(values, bytes.data(), 16, stream), CUDA_SUCCESS);
  ASSERT_EQ(LaunchOn(stream, 1, 4), CUDA_SUCCESS);
  ASSERT_EQ(api.copy_to_host_async(seen.data(), values, 16, stream), CUDA_SUCCESS);
  // The bytes were taken when the copy was issued.
  bytes.assign(4, 0);
  CUstream other = nullptr;
  ASSERT_EQ(api.stream_create(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(LaunchOn(other, 4, 4), CUDA_SUCCESS);
  ASSERT_EQ(api.stream_synchronize(other), CUDA_SUCCESS);
  EXPECT_THAT(ToHost<uint32_t>(values, 4), ElementsAre(5U, 6U, 7U, 8U));
  EXPECT_THAT(seen, ElementsAre(0U, 0U, 0U, 0U));
  Release();
  EXPECT_THAT(seen, ElementsAre(11U, 21U, 31U, 41U));
}

TEST_F(HeldStreamTest, AnErrorOfWhatHadToWaitComesWithALaterCall) {
  ASSERT_EQ(api.set_bytes_async(values, 0, 16, stream), CUDA_SUCCESS);
  ASSERT_EQ(api.memory_free(values), CUDA_SUCCESS);
  hold_.may_end = true;
  EXPECT_EQ(api.stream_synchronize(stream), CUDA_ERROR_INVALID_VALUE);
  ResetDriver();
  DeviceTest::SetUp();
  ASSERT_EQ(api.stream_create(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
}

TEST_F(HeldStreamTest, AStreamThatIsDestroyedEndsFirst) {
  CUstream other = nullptr;
  std::atomic<int> calls = 0;
  ASSERT_EQ(api.stream_create(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  const auto count = [](void* argument) { ++*static_cast<std::atomic<int>*>(argument); };
  for (int i = 0; i < 3; ++i) ASSERT_EQ(api.launch_host_function(other, count, &calls), CUDA_SUCCESS);
  ASSERT_EQ(api.stream_destroy(other), CUDA_SUCCESS);
  EXPECT_EQ(calls, 3);
}

TEST_F(DriverTest, AHostFunctionMayNotCallTheDriver) {
  struct Seen {
    const engine::cuda::DriverApi& api;
    CUstream stream;
    CUresult result = CUDA_SUCCESS;
  } seen{api, stream};
  const auto synchronize = [](void* argument) {
    auto& about = *static_cast<Seen*>(argument);
    about.result = about.api.stream_synchronize(about.stream);
  };
  ASSERT_EQ(api.launch_host_function(stream, synchronize, &seen), CUDA_SUCCESS);
  ASSERT_EQ(api.stream_synchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(seen.result, CUDA_ERROR_NOT_PERMITTED);
}

class IpcTest : public DriverTest {
 protected:
  // The exit code of another process, in which a test fails by returning another number than 0.
  static int InAnotherProcess(const std::function<int()>& body) {
    const pid_t child = fork();
    if (child == 0) _exit(body());
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  CUresult Open(const CUipcMemHandle& handle, CUdeviceptr* address) const {
    return api.ipc_open_handle(address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  }

  CUipcMemHandle handle{};
};

TEST_F(IpcTest, ExportedMemoryIsTheSameInAnotherProcess) {
  ASSERT_EQ(api.ipc_get_handle(&handle, values), CUDA_SUCCESS);
  EXPECT_THAT(ToHost<uint32_t>(values, 4), ElementsAre(1U, 2U, 3U, 4U));
  // Its kernels go on with it, and the other process sees what they write.
  ASSERT_EQ(LaunchOn(stream, 6, 4), CUDA_SUCCESS);
  EXPECT_EQ(InAnotherProcess([this] {
              CUdeviceptr first = 0;
              CUdeviceptr second = 0;
              if (Open(handle, &first) != CUDA_SUCCESS || Open(handle, &second) != CUDA_SUCCESS) return 1;
              if (first != second || first == values) return 2;
              const CUdeviceptr copy = Allocate(16);
              if (api.copy_on_device_async(copy, first, 16, stream) != CUDA_SUCCESS) return 3;
              if (ToHost<uint32_t>(copy, 4) != std::vector<uint32_t>{7, 8, 9, 10}) return 4;
              if (api.copy_on_device_async(copy, first + 4, 16, stream) != CUDA_ERROR_INVALID_VALUE) return 5;
              if (api.memory_free(first) != CUDA_ERROR_INVALID_VALUE) return 6;
              if (api.set_bytes_async(first, 0, 4, stream) != CUDA_SUCCESS) return 7;
              // Once for each time that it was opened.
              if (api.ipc_close_handle(first) != CUDA_SUCCESS) return 8;
              if (api.set_bytes_async(first, 0, 8, stream) != CUDA_SUCCESS) return 9;
              if (api.ipc_close_handle(first) != CUDA_SUCCESS) return 10;
              if (api.set_bytes_async(first, 0, 16, stream) != CUDA_ERROR_INVALID_VALUE) return 11;
              return api.ipc_close_handle(first) == CUDA_ERROR_INVALID_VALUE ? 0 : 12;
            }),
            0);
  EXPECT_THAT(ToHost<uint32_t>(values, 4), ElementsAre(0U, 0U, 9U, 10U));
}

TEST_F(IpcTest, WhatIsNoHandleOfLivingMemoryIsRefused) {
  EXPECT_EQ(api.ipc_get_handle(&handle, values + 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(api.ipc_get_handle(nullptr, values), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(api.ipc_get_handle(&handle, values), CUDA_SUCCESS);
  CUdeviceptr opened = 0;
  EXPECT_EQ(Open(handle, &opened), CUDA_ERROR_INVALID_CONTEXT) << "the same process";
  EXPECT_EQ(api.ipc_close_handle(values), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(api.memory_free(values), CUDA_SUCCESS);
  EXPECT_EQ(InAnotherProcess([this] {
              CUdeviceptr none = 0;
              if (Open(handle, &none) != CUDA_ERROR_MAP_FAILED) return 1;
              if (api.ipc_open_handle(&none, handle, 0) != CUDA_ERROR_INVALID_VALUE) return 2;
              return Open({}, &none) == CUDA_ERROR_INVALID_HANDLE ? 0 : 3;
            }),
            0);
}

TEST_F(DriverTest, LaunchesOutsideTheLimitsAreRefused) {
  EXPECT_EQ(LaunchOn(nullptr, 1, 65), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(LaunchOn(nullptr, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(LaunchOn(nullptr, 1, 1, 49153), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(api.function_set_attribute(add, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000), CUDA_SUCCESS);
  EXPECT_EQ(LaunchOn(nullptr, 1, 1, 49153), CUDA_SUCCESS);
  EXPECT_EQ(api.function_set_attribute(add, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 200000),
            CUDA_ERROR_INVALID_VALUE);
  CUfunction other = nullptr;
  EXPECT_EQ(api.module_function(&other, module, "nobody"), CUDA_ERROR_NOT_FOUND);
  EXPECT_GT(ExecutedInstructions(), 0U);
  EXPECT_EQ(InstructionsByKernel().count("add_one"), 1U);
}

TEST_F(DriverTest, ALaunchByItsConfigMayBeginEarlyAndHasNoOtherAttribute) {
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attribute.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config{.gridDimX = 1,
                        .gridDimY = 1,
                        .gridDimZ = 1,
                        .blockDimX = 4,
                        .blockDimY = 1,
                        .blockDimZ = 1,
                        .sharedMemBytes = 16,
                        .hStream = stream,
                        .attrs = &attribute,
                        .numAttrs = 1};
  uint32_t by = 10;
  void* params[] = {&values, &by};
  EXPECT_EQ(api.launch_kernel_ex(nullptr, add, params, nullptr), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(api.launch_kernel_ex(&config, add, params, nullptr), CUDA_SUCCESS);
  EXPECT_THAT(ToHost<uint32_t>(values, 4), ElementsAre(11U, 12U, 13U, 14U));
  attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  EXPECT_EQ(api.launch_kernel_ex(&config, add, params, nullptr), CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(DriverTest, GraphsReplayWhatWasRecorded) {
  ASSERT_EQ(api.stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  ASSERT_EQ(LaunchOn(stream, 10, 4), CUDA_SUCCESS);
  ASSERT_EQ(api.set_bytes_async(values, 0, 4, stream), CUDA_SUCCESS);
  ASSERT_EQ(LaunchOn(stream, 1, 4), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  ASSERT_EQ(api.stream_end_capture(stream, &graph), CUDA_SUCCESS);
  EXPECT_THAT(ToHost<uint32_t>(values, 4), ElementsAre(1U, 2U, 3U, 4U)) << "a capture does nothing";
  CUgraphExec exec = nullptr;
  ASSERT_EQ(api.graph_instantiate(&exec, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(api.graph_destroy(graph), CUDA_SUCCESS);
  ASSERT_EQ(api.graph_launch(exec, stream), CUDA_SUCCESS);
  ASSERT_EQ(api.graph_launch(exec, stream), CUDA_SUCCESS);
  EXPECT_THAT(ToHost<uint32_t>(values, 4), ElementsAre(1U, 24U, 25U, 26U));
  EXPECT_EQ(api.graph_exec_destroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(api.graph_launch(exec, stream), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(DriverTest, WhatACaptureForbidsInvalidatesIt) {
  ASSERT_EQ(api.stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(api.stream_synchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(LaunchOn(stream, 1), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CUgraph graph = nullptr;
  EXPECT_EQ(api.stream_end_capture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(api.stream_end_capture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
}

TEST_F(DriverTest, StreamsJoinACaptureByEvents) {
  CUstream other = nullptr;
  CUevent fork = nullptr;
  CUevent join = nullptr;
  ASSERT_EQ(api.stream_create(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(api.event_create(&fork, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  ASSERT_EQ(api.event_create(&join, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  ASSERT_EQ(api.stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  ASSERT_EQ(api.event_record(fork, stream), CUDA_SUCCESS);
  EXPECT_EQ(api.event_query(fork), CUDA_ERROR_CAPTURED_EVENT);
  ASSERT_EQ(api.stream_wait_event(other, fork, 0), CUDA_SUCCESS);
  ASSERT_EQ(LaunchOn(other, 5), CUDA_SUCCESS);
  ASSERT_EQ(api.event_record(join, other), CUDA_SUCCESS);
  ASSERT_EQ(api.stream_wait_event(stream, join, 0), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  ASSERT_EQ(api.stream_end_capture(stream, &graph), CUDA_SUCCESS);
  EXPECT_EQ(api.event_query(fork), CUDA_SUCCESS);
  CUgraphExec exec = nullptr;
  ASSERT_EQ(api.graph_instantiate(&exec, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(api.graph_launch(exec, stream), CUDA_SUCCESS);
  EXPECT_EQ(ToHost<uint32_t>(values, 1)[0], 6U);
}

}  // namespace
}  // namespace baton::ptx
