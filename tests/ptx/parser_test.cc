// What the interpreter refuses at load, and what a module may hold.
#include "tests/ptx/module.h"
#include "tests/ptx/test_device.h"

namespace baton::ptx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using ModuleTest = DeviceTest;

std::string Kernel(const std::string& body) {
  return ".version 9.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 out)\n{\n" + body + "\n}\n";
}

TEST_F(ModuleTest, NamesTheLineOfWhatItDoesNotKnow) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"frobnicate.b32 5;", "unknown instruction frobnicate"},
      {".reg .b32 %r<3>; add.s32.fast %r1, %r1, %r2;", "unknown modifier .fast"},
      {".reg .b32 %r<3>; add.s32 %r1, %r2;", "operands"},
      {".reg .b32 %r<3>; add.s32 %r1, %r2, %r9;", "unknown register %r9"},
      {".reg .f32 %f<3>; div.s32.approx %f1, %f2, %f2;", "unknown modifier .approx"},
      {"bra nowhere;", "unknown label nowhere"},
      {".surprise 3;", "unknown directive .surprise"},
      {".reg .b32 %r<3>; ld.global.v2.u32 %r1, [out];", "a vector of another length"},
      {".reg .b32 %r<9>; mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%r1}, {%r2}, {%r3}, {%r4};", "mma"},
      {".reg .b32 %r<3>; tex.2d.v4.f32.f32 {%r1}, [out];", "unknown instruction tex"},
  };
  for (const auto& [body, what] : cases) {
    CUmodule module = nullptr;
    EXPECT_EQ(api.module_load_data(&module, Kernel(body).c_str()), CUDA_ERROR_INVALID_PTX) << body;
    EXPECT_THAT(ModuleError(), HasSubstr("line 6")) << body;
    EXPECT_THAT(ModuleError(), HasSubstr(what)) << body;
  }
}

TEST_F(ModuleTest, RefusesRecursionBinariesAndNewerTargets) {
  CUmodule module = nullptr;
  const std::string recursive =
      ".version 9.0\n.target sm_80\n.address_size 64\n.func f() { call f, (); ret; }\n.entry k() { call f, (); ret; "
      "}\n";
  EXPECT_EQ(api.module_load_data(&module, recursive.c_str()), CUDA_ERROR_INVALID_PTX);
  EXPECT_THAT(ModuleError(), HasSubstr("recursion"));
  EXPECT_EQ(api.module_load_data(&module,
                                 "\x7f"
                                 "ELF..."),
            CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(api.module_load_data(&module, ".version 9.0\n.target sm_90a\n.entry k() { ret; }"),
            CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(api.module_load_data(&module, "nothing"), CUDA_ERROR_INVALID_PTX);
}

TEST_F(ModuleTest, VariablesHaveTheirInitialValuesAndAddresses) {
  const CUmodule module = Load(R"(.version 9.0
.target sm_80
.address_size 64
.const .align 4 .b8 table[8] = {1, 0, 0, 0, 0xff, 255, 3};
.global .align 4 .f32 number = 0f40490FDB;
.global .align 8 .u64 places[2] = {table, generic(table)+4};
.global .u32 zero;
.visible .entry k(.param .u64 out) {
  .reg .b64 %rd<9>; .reg .b32 %r<9>;
  ld.param.u64 %rd1, [out];
  mov.u64 %rd2, places;
  ld.global.u64 %rd3, [%rd2+8];
  ld.u32 %r1, [%rd3];
  ld.const.u32 %r2, [table];
  ld.global.u32 %r3, [number];
  ld.global.u32 %r4, [zero];
  st.global.v4.u32 [%rd1], {%r1, %r2, %r3, %r4};
  ret;
})");
  const CUdeviceptr out = Allocate(16);
  ASSERT_EQ(Launch(Function(module, "k"), 1, 1, 0, out), CUDA_SUCCESS);
  EXPECT_THAT(ToHost<uint32_t>(out, 4), ElementsAre(0x0003ffffU, 1U, 0x40490fdbU, 0U));
}

TEST_F(ModuleTest, ScopesHideRegistersAndParametersMayBeIndexed) {
  const CUmodule module = Load(R"(.version 9.0
.target sm_80
.address_size 64
.entry k(.param .align 8 .b8 all[24]) {
  .reg .b64 %rd<5>; .reg .b32 %r<5>; .reg .b32 x;
  mov.u32 x, 5;
  { .reg .b32 x; mov.u32 x, 6; }
  mov.b64 %rd1, all;
  mov.u32 %r1, %tid.x;
  mad.wide.u32 %rd1, %r1, 4, %rd1;
  ld.param.u32 %r2, [%rd1+8];
  add.u32 %r2, %r2, x;
  ld.param.u64 %rd2, [all];
  mad.wide.u32 %rd2, %r1, 4, %rd2;
  st.global.u32 [%rd2], %r2;
})");
  struct {
    CUdeviceptr out;
    uint32_t values[4];
  } params = {Allocate(16), {10, 20, 30, 40}};
  ASSERT_EQ(Launch(Function(module, "k"), 1, 4, 0, params), CUDA_SUCCESS);
  EXPECT_THAT(ToHost<uint32_t>(params.out, 4), ElementsAre(15U, 25U, 35U, 45U));
}

}  // namespace
}  // namespace baton::ptx
