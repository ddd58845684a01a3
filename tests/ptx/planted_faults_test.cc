#include "tests/ptx/planted_faults.h"

#include <unistd.h>

#include <filesystem>

#include "tests/ptx/test_device.h"

namespace baton::ptx {
namespace {

constexpr const char* kStoreSeven = R"(.version 9.0
.target sm_80
.address_size 64
.entry store_seven(.param .u64 at) {
  .reg .b64 %rd<2>; .reg .b32 %r<2>;
  ld.param.u64 %rd1, [at]; mov.u32 %r1, 7; st.global.u32 [%rd1], %r1; ret;
})";

class PlantedFaultsTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    folder = testing::TempDir() + "/faults." + std::to_string(getpid());
    std::filesystem::create_directory(folder);
    faulty = InterpretedDriver();
    AddPlantedFaults(folder, faulty);
    store = Function(Load(kStoreSeven), "store_seven");
    value = ToDevice(std::vector<uint32_t>{1});
  }
  void TearDown() override {
    std::filesystem::remove_all(folder);
    ResetDriver();
  }

  void Plant(const std::string& word) { std::ofstream(folder + "/" + std::to_string(getpid())) << word; }
  CUresult LaunchStore() {
    void* values[] = {&value};
    return faulty.launch_kernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, values, nullptr);
  }

  std::string folder;
  engine::cuda::DriverApi faulty;
  CUfunction store = nullptr;
  CUdeviceptr value = 0;
};

TEST_F(PlantedFaultsTest, WithoutAFileNothingFails) {
  EXPECT_EQ(LaunchStore(), CUDA_SUCCESS);
  EXPECT_EQ(faulty.stream_synchronize(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(ToHost<uint32_t>(value, 1)[0], 7U);
}

TEST_F(PlantedFaultsTest, ALaunchIsAcceptedAndItsErrorStays) {
  for (const auto& [word, error] :
       {std::pair("illegal_address", CUDA_ERROR_ILLEGAL_ADDRESS),
        std::pair("ecc_uncorrectable", CUDA_ERROR_ECC_UNCORRECTABLE), std::pair("nonsense", CUDA_ERROR_UNKNOWN)}) {
    SetUp();
    Plant(word);
    EXPECT_EQ(LaunchStore(), CUDA_SUCCESS);
    EXPECT_EQ(faulty.stream_synchronize(nullptr), error);
    EXPECT_EQ(LaunchStore(), error);
    uint32_t word_of_memory = 0;
    EXPECT_EQ(faulty.copy_to_host_async(&word_of_memory, value, 4, nullptr), error);
    const char* name = nullptr;
    EXPECT_EQ(faulty.error_name(CUDA_ERROR_ILLEGAL_ADDRESS, &name), CUDA_SUCCESS) << "names are still given";
    TearDown();
  }
}

TEST_F(PlantedFaultsTest, AWaitMeetsTheErrorOfALaunchBeforeIt) {
  EXPECT_EQ(LaunchStore(), CUDA_SUCCESS);
  Plant("illegal_address");
  EXPECT_EQ(faulty.stream_synchronize(nullptr), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(PlantedFaultsTest, ADeviceThatHangsAcceptsAllAndDoesNothing) {
  Plant("hang");
  EXPECT_EQ(LaunchStore(), CUDA_SUCCESS);
  EXPECT_EQ(LaunchStore(), CUDA_SUCCESS);
  // Without a wait, which would not end.
  EXPECT_EQ(ToHost<uint32_t>(value, 1)[0], 1U);
}

}  // namespace
}  // namespace baton::ptx
