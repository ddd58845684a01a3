#include "tests/ptx/fat_binary.h"

#include <cstdint>
#include <cstring>

#include "tests/ptx/test_device.h"

namespace baton::ptx {
namespace {

using testing::HasSubstr;

constexpr uint16_t kPtxKind = 1;
constexpr uint16_t kElfKind = 2;

std::string PtxFor(int target, const std::string& kernel) {
  return ".version 9.0\n.target sm_" + std::to_string(target) + "\n.address_size 64\n.entry " + kernel +
         "() { ret; }\n";
}

// Bytes in an allocation of their own size, so that a sanitizer sees a read behind them.
using Image = std::vector<uint8_t>;

template <class T>
void Put(Image& image, size_t at, T value) {
  std::memcpy(image.data() + at, &value, sizeof(value));
}

// An entry with a header of 64 bytes, filled up to a multiple of 8.
Image Entry(uint16_t kind, uint32_t target, const std::string& payload) {
  constexpr size_t kHeaderBytes = 64;
  const size_t payload_bytes = (payload.size() + 8) / 8 * 8;
  Image entry(kHeaderBytes + payload_bytes);
  Put<uint16_t>(entry, 0, kind);
  Put<uint16_t>(entry, 2, 0x101);
  Put<uint32_t>(entry, 4, kHeaderBytes);
  Put<uint64_t>(entry, 8, payload_bytes);
  Put<uint32_t>(entry, 28, target);
  Put<uint64_t>(entry, 40, 0x11);
  std::memcpy(entry.data() + kHeaderBytes, payload.data(), payload.size());
  return entry;
}

Image FatBinary(const std::vector<Image>& entries) {
  Image image(16);
  for (const Image& entry : entries) image.insert(image.end(), entry.begin(), entry.end());
  Put<uint32_t>(image, 0, 0xBA55ED50);
  Put<uint16_t>(image, 4, 1);
  Put<uint16_t>(image, 6, 16);
  Put<uint64_t>(image, 8, image.size() - 16);
  image.shrink_to_fit();
  return image;
}

class FatBinaryTest : public DeviceTest {
 protected:
  CUresult Load(const Image& image) {
    CUmodule module = nullptr;
    const CUresult result = api.module_load_data(&module, image.data());
    if (result == CUDA_SUCCESS) loaded_ = module;
    return result;
  }
  bool Has(const char* kernel) {
    CUfunction function = nullptr;
    return api.module_function(&function, loaded_, kernel) == CUDA_SUCCESS;
  }

 private:
  CUmodule loaded_ = nullptr;
};

TEST_F(FatBinaryTest, TheNewestPtxThatTheDeviceRunsIsTaken) {
  const Image image = FatBinary({Entry(kPtxKind, 75, PtxFor(75, "old")), Entry(kPtxKind, 80, PtxFor(80, "right")),
                                 Entry(kElfKind, 80,
                                       "\x7f"
                                       "ELF"),
                                 Entry(kPtxKind, 70, PtxFor(70, "older")), Entry(kPtxKind, 90, PtxFor(90, "later"))});
  ASSERT_EQ(Load(image), CUDA_SUCCESS) << ModuleError();
  EXPECT_TRUE(Has("right"));
  EXPECT_FALSE(Has("old"));
}

TEST_F(FatBinaryTest, CodeForOtherDevicesAloneIsNoKernelImage) {
  EXPECT_EQ(Load(FatBinary({Entry(kElfKind, 80,
                                  "\x7f"
                                  "ELF"),
                            Entry(kPtxKind, 90, PtxFor(90, "later"))})),
            CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_THAT(ModuleError(), HasSubstr("no PTX for sm_80"));
  EXPECT_EQ(Load(FatBinary({})), CUDA_ERROR_NO_BINARY_FOR_GPU);
}

TEST_F(FatBinaryTest, CompressedPtxIsRefusedByName) {
  Image by_size = Entry(kPtxKind, 80, "not text");
  Put<uint32_t>(by_size, 16, 8);
  EXPECT_EQ(Load(FatBinary({by_size})), CUDA_ERROR_INVALID_IMAGE);
  EXPECT_THAT(ModuleError(), HasSubstr("is compressed"));
  Image by_flag = Entry(kPtxKind, 80, "not text");
  Put<uint64_t>(by_flag, 40, 0x8011);
  EXPECT_EQ(Load(FatBinary({by_flag})), CUDA_ERROR_INVALID_IMAGE);
  EXPECT_THAT(ModuleError(), HasSubstr("is compressed"));
}

TEST_F(FatBinaryTest, APayloadThatIsNoPtxIsInvalidPtx) {
  EXPECT_EQ(Load(FatBinary({Entry(kPtxKind, 80, "not text")})), CUDA_ERROR_INVALID_PTX);
}

TEST_F(FatBinaryTest, DamagedSizesAreInvalidImages) {
  const Image whole = FatBinary({Entry(kPtxKind, 80, PtxFor(80, "k"))});
  const auto damaged = [&](size_t at, auto value) {
    Image image = whole;
    Put(image, at, value);
    image.shrink_to_fit();
    EXPECT_EQ(Load(image), CUDA_ERROR_INVALID_IMAGE) << "byte " << at;
    EXPECT_THAT(ModuleError(), HasSubstr("the fat binary is damaged"));
  };
  damaged(4, uint16_t{2});
  damaged(6, uint16_t{15});
  damaged(8, uint64_t{1} << 40);
  damaged(8, ~uint64_t{0});
  damaged(16 + 4, uint32_t{47});
  damaged(16 + 4, uint32_t{0});
  damaged(16 + 4, ~uint32_t{0});
  damaged(16 + 8, static_cast<uint64_t>(whole.size() - 16 - 64 + 1));
  damaged(16 + 8, ~uint64_t{0});
}

// The header says how much is there, and no more is read.
TEST_F(FatBinaryTest, AnImageThatIsCutAnywhereIsRefused) {
  const Image whole = FatBinary({Entry(kPtxKind, 80, PtxFor(80, "k"))});
  for (size_t bytes = 1; bytes < whole.size() - 16; ++bytes) {
    Image cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(16 + bytes));
    Put<uint64_t>(cut, 8, bytes);
    EXPECT_EQ(Load(cut), CUDA_ERROR_INVALID_IMAGE) << bytes;
  }
}

}  // namespace
}  // namespace baton::ptx
