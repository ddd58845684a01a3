// The device of the process for the stand-in: streams and memory of the CUDA driver that the process has loaded, which
// in tests is the emulated one (tests/ptx). Needs no header of CUDA.
//
// As NCCL's kernels do, an operation has its turn in the order of its stream, and holds the stream until it has ended.
// It does so as a host function. Since these may not call the driver, the bytes are copied by another thread, on a
// stream of its own.
#ifndef BATON_TESTS_NCCL_DEVICE_H_
#define BATON_TESTS_NCCL_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>

namespace baton::nccl_stand_in {

// Any thread may call it.
class Device {
 public:
  // Null where there is no driver, or it has no device.
  static Device* Get();

  // These are false when the driver refuses.
  //
  // Runs the task when the stream has come so far.
  bool Put(void* stream, std::function<void()> task);
  bool CopyOut(uint8_t* to, const uint8_t* from, size_t bytes);
  bool CopyIn(uint8_t* to, const uint8_t* from, size_t bytes);

 private:
  Device() = default;
  bool Load();
  // Under the mutex: waits for a copy that was issued.
  bool Finish(int issued);

  int (*retain_)(void** context, int device) = nullptr;
  int (*set_current_)(void* context) = nullptr;
  int (*stream_create_)(void** stream, unsigned flags) = nullptr;
  int (*stream_synchronize_)(void* stream) = nullptr;
  int (*launch_host_function_)(void* stream, void (*function)(void*), void* argument) = nullptr;
  int (*copy_to_device_)(uint64_t to, const void* from, size_t bytes, void* stream) = nullptr;
  int (*copy_to_host_)(void* to, uint64_t from, size_t bytes, void* stream) = nullptr;
  void* context_ = nullptr;

  std::mutex mutex_;
  // Under the mutex: that of all copies.
  void* stream_ = nullptr;
};

}  // namespace baton::nccl_stand_in

#endif  // BATON_TESTS_NCCL_DEVICE_H_
