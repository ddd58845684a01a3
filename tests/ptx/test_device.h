// What tests need of the interpreted driver: a fixture with a context, memory as vectors, launches.
#ifndef BATON_TESTS_PTX_TEST_DEVICE_H_
#define BATON_TESTS_PTX_TEST_DEVICE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/ptx/interpreted_driver.h"

namespace baton::ptx {

class DeviceTest : public testing::Test {
 protected:
  const engine::cuda::DriverApi& api = InterpretedDriver();

  void SetUp() override {
    ResetDriver();
    ASSERT_EQ(api.init(0), CUDA_SUCCESS);
    CUcontext context = nullptr;
    ASSERT_EQ(api.primary_context_retain(&context, 0), CUDA_SUCCESS);
    ASSERT_EQ(api.context_set_current(context), CUDA_SUCCESS);
  }
  // What a test does not expect, it did not take.
  void TearDown() override { EXPECT_THAT(Texts(TakeFindings()), testing::IsEmpty()); }

  static std::vector<std::string> Texts(const std::vector<Finding>& findings) {
    std::vector<std::string> texts;
    for (const Finding& finding : findings) texts.push_back(ToString(finding));
    return texts;
  }
  static std::vector<FindingKind> Kinds(const std::vector<Finding>& findings) {
    std::vector<FindingKind> kinds;
    for (const Finding& finding : findings) kinds.push_back(finding.kind);
    return kinds;
  }

  CUmodule Load(const std::string& text) {
    CUmodule module = nullptr;
    EXPECT_EQ(api.module_load_data(&module, text.c_str()), CUDA_SUCCESS) << ModuleError();
    return module;
  }
  // One of tests/ptx/kernels. Empty where nvcc was not there.
  static std::string KernelText(const std::string& name) {
    std::ifstream file(std::string(BATON_PTX_TEST_FOLDER) + "/" + name + ".ptx");
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  CUfunction Function(CUmodule module, const char* name) {
    CUfunction function = nullptr;
    EXPECT_EQ(api.module_function(&function, module, name), CUDA_SUCCESS) << name;
    return function;
  }
  CUdeviceptr Allocate(size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_EQ(api.memory_alloc(&address, bytes), CUDA_SUCCESS);
    return address;
  }
  template <class T>
  CUdeviceptr ToDevice(const std::vector<T>& values) {
    const CUdeviceptr address = Allocate(values.size() * sizeof(T));
    EXPECT_EQ(api.copy_to_device_async(address, values.data(), values.size() * sizeof(T), nullptr), CUDA_SUCCESS);
    return address;
  }
  template <class T>
  std::vector<T> ToHost(CUdeviceptr address, size_t count) {
    std::vector<T> values(count);
    EXPECT_EQ(api.copy_to_host_async(values.data(), address, count * sizeof(T), nullptr), CUDA_SUCCESS);
    return values;
  }
  template <class... Args>
  CUresult Launch(CUfunction function, unsigned grid, unsigned block, unsigned shared, Args... args) {
    void* values[] = {static_cast<void*>(&args)..., nullptr};
    return api.launch_kernel(function, grid, 1, 1, block, 1, 1, shared, nullptr, values, nullptr);
  }

  // Runs `body` for each triple of inputs. It finds them in %a, %b, %c (64 bits), %a32 ..., %a16 ... and in %fa, %fb,
  // %fc, and leaves the result in %o, %o32, %o16, %fo or %po, whichever is `result`. `declarations` come before it.
  std::vector<uint64_t> Lanes(const std::string& body, const std::string& result,
                              const std::vector<std::array<uint64_t, 3>>& inputs) {
    std::string text = R"(.version 9.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out, .param .u32 count) {
  .reg .pred %p<8>; .reg .pred %po;
  .reg .b64 %rd<8>; .reg .b64 %a, %b, %c, %o; .reg .b32 %r<8>; .reg .b32 %a32, %b32, %c32, %o32;
  .reg .b16 %a16, %b16, %c16, %o16; .reg .f32 %fa, %fb, %fc, %fo;
  mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mad.lo.u32 %r0, %r1, 256, %r0;
  ld.param.u32 %r2, [count]; setp.ge.u32 %p0, %r0, %r2; @%p0 exit;
  ld.param.u64 %rd0, [in]; mad.wide.u32 %rd0, %r0, 24, %rd0;
  ld.global.u64 %a, [%rd0]; ld.global.u64 %b, [%rd0+8]; ld.global.u64 %c, [%rd0+16];
  cvt.u32.u64 %a32, %a; cvt.u32.u64 %b32, %b; cvt.u32.u64 %c32, %c;
  cvt.u16.u64 %a16, %a; cvt.u16.u64 %b16, %b; cvt.u16.u64 %c16, %c;
  mov.b32 %fa, %a32; mov.b32 %fb, %b32; mov.b32 %fc, %c32;
  )" + body + "\n";
    if (result == "%o32") text += "cvt.u64.u32 %o, %o32;\n";
    if (result == "%o16") text += "cvt.u64.u16 %o, %o16;\n";
    if (result == "%fo") text += "mov.b32 %o32, %fo; cvt.u64.u32 %o, %o32;\n";
    if (result == "%po") text += "selp.u64 %o, 1, 0, %po;\n";
    text += "ld.param.u64 %rd1, [out]; mad.wide.u32 %rd1, %r0, 8, %rd1; st.global.u64 [%rd1], %o; ret; }\n";
    const CUmodule module = Load(text);
    if (module == nullptr) return {};
    const CUdeviceptr in = ToDevice(inputs);
    const CUdeviceptr out = Allocate(inputs.size() * 8);
    const auto count = static_cast<uint32_t>(inputs.size());
    EXPECT_EQ(Launch(Function(module, "k"), (count + 255) / 256, 256, 0, in, out, count), CUDA_SUCCESS);
    std::vector<uint64_t> results = ToHost<uint64_t>(out, inputs.size());
    EXPECT_EQ(api.memory_free(in), CUDA_SUCCESS);
    EXPECT_EQ(api.memory_free(out), CUDA_SUCCESS);
    return results;
  }
};

}  // namespace baton::ptx

#endif  // BATON_TESTS_PTX_TEST_DEVICE_H_
