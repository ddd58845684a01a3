// The safetensors container: what is read, and every false statement that a header may make.
#include <cstring>
#include <string>

#include "common/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "modelfile/json_reader.h"
#include "modelfile/limits.h"
#include "modelfile/safetensors_reader.h"
#include "modelfile/testing/error_text.h"
#include "modelfile/testing/tiny_hf.h"

namespace baton::modelfile {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string WithHeader(const std::string& header, const std::string& data) {
  const uint64_t size = header.size();
  std::string out(sizeof(size), '\0');
  std::memcpy(out.data(), &size, sizeof(size));
  return out + header + data;
}

std::string TableError(const std::string& bytes) {
  const std::string message = ErrorText(ParseSafetensors(bytes, "w.safetensors"));
  EXPECT_THAT(message, HasSubstr("w.safetensors: "));
  return message;
}

// The error for one tensor of four bytes with this entry in the header.
std::string EntryError(const std::string& entry) { return TableError(WithHeader(R"({"a": )" + entry + "}", "1234")); }

TEST(Safetensors, ReadsTensorsInTheOrderOfTheirBytes) {
  const std::string bytes = WriteSafetensors({{"z", "F32", {2, 1}, "12345678"}, {"a", "BF16", {3}, "abcdef"}});
  const auto tensors = ParseSafetensors(bytes, "w");
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 2u);
  EXPECT_EQ((*tensors)[0].name, "z");
  EXPECT_EQ((*tensors)[0].dtype, "F32");
  EXPECT_THAT((*tensors)[0].shape, ElementsAre(2, 1));
  EXPECT_EQ(std::memcmp((*tensors)[0].data, "12345678", 8), 0);
  EXPECT_EQ((*tensors)[1].bytes, 6u);
}

TEST(Safetensors, ReadsScalarsEmptyTensorsAndNoTensors) {
  EXPECT_TRUE(ParseSafetensors(WriteSafetensors({{"s", "I64", {}, "12345678"}, {"e", "F32", {0, 7}, ""}}), "w").ok());
  EXPECT_TRUE(ParseSafetensors(WithHeader("{}", ""), "w").ok());
}

TEST(Safetensors, RefusesHeadersThatDoNotFit) {
  EXPECT_THAT(TableError(""), HasSubstr("it has 0 bytes"));
  EXPECT_THAT(TableError("1234567"), HasSubstr("it has 7 bytes"));
  EXPECT_THAT(TableError(std::string(8, '\xFF')), HasSubstr("its header has 18446744073709551615 bytes"));
  EXPECT_THAT(TableError(WithHeader("{", "")), HasSubstr("not valid JSON"));
  EXPECT_THAT(TableError(WithHeader("[]", "")), HasSubstr("not a JSON object"));
  EXPECT_THAT(TableError(WithHeader("{\"\xFF\": 1}", "")), HasSubstr("not valid JSON"));
  const std::string deep = std::string(kMaxJsonDepth, '[') + std::string(kMaxJsonDepth, ']');
  EXPECT_THAT(TableError(WithHeader(R"({"a": )" + deep + "}", "")), HasSubstr("nests 65 levels deep"));
  EXPECT_THAT(TableError(WithHeader(std::string(kMaxSafetensorsHeaderBytes + 1, ' '), "")),
              HasSubstr("limit 100000000"));
}

TEST(Safetensors, RefusesEntriesThatDoNotFit) {
  const std::string offsets = R"("data_offsets": [0, 4])";
  EXPECT_THAT(EntryError("1"), HasSubstr("dtype"));
  EXPECT_THAT(EntryError(R"({"dtype": "Q4_0", "shape": [1], )" + offsets + "}"), HasSubstr("dtype"));
  EXPECT_THAT(EntryError(R"({"dtype": "F32", )" + offsets + "}"), HasSubstr("shape"));
  EXPECT_THAT(EntryError(R"({"dtype": "F32", "shape": [1,1,1,1,1,1,1,1,1], )" + offsets + "}"), HasSubstr("at most 8"));
  EXPECT_THAT(EntryError(R"({"dtype": "F32", "shape": [-1], )" + offsets + "}"), HasSubstr("a size"));
  EXPECT_THAT(EntryError(R"({"dtype": "F32", "shape": [1.0], )" + offsets + "}"), HasSubstr("a size"));
  EXPECT_THAT(EntryError(R"({"dtype": "F32", "shape": [2147483648], )" + offsets + "}"), HasSubstr("a size"));
  EXPECT_THAT(EntryError(R"({"dtype": "F32", "shape": [2], )" + offsets + "}"), HasSubstr("4 bytes are not what"));
  // 2^31 - 1 cubed does not fit into 64 bits.
  EXPECT_THAT(EntryError(R"({"dtype": "F32", "shape": [2147483647, 2147483647, 2147483647], )" + offsets + "}"),
              HasSubstr("4 bytes are not what"));
  EXPECT_THAT(EntryError(R"({"dtype": "F4", "shape": [1], "data_offsets": [0, 0]})"),
              HasSubstr("0 bytes are not what"));
  for (const char* bad : {"[0]", "[4, 0]", "[0, 5]", "[0, -4]", "[0, 4.0]", "[0, \"4\"]", "[0, 4, 4]", "null",
                          "[0, 18446744073709551615]"}) {
    EXPECT_THAT(EntryError(std::string(R"({"dtype": "F32", "shape": [1], "data_offsets": )") + bad + "}"),
                HasSubstr("data_offsets"))
        << bad;
  }
  EXPECT_THAT(TableError(WithHeader(R"({"": {}})", "")), HasSubstr("name has 0 bytes"));
  EXPECT_THAT(TableError(WithHeader(R"({")" + std::string(kMaxHfTensorNameBytes + 1, 'n') + R"(": {}})", "")),
              HasSubstr("name has 257 bytes"));
}

TEST(Safetensors, DimensionsAtAndOverTheLimit) {
  const auto entry = [](size_t dims) {
    const Json shape(std::vector<int>(dims, 1));
    return Json({{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {0, 4}}}).dump();
  };
  EXPECT_TRUE(ParseSafetensors(WithHeader(R"({"a": )" + entry(kMaxHfTensorDims) + "}", "1234"), "w").ok());
  EXPECT_THAT(EntryError(entry(kMaxHfTensorDims + 1)), HasSubstr("at most 8 sizes"));
}

TEST(Safetensors, EveryByteBelongsToOneTensor) {
  const auto two = [](const char* first, const char* second, const std::string& data) {
    return TableError(WithHeader(std::string(R"({"a": {"dtype": "U8", "shape": [2], "data_offsets": )") + first +
                                     R"(}, "b": {"dtype": "U8", "shape": [2], "data_offsets": )" + second + "}}",
                                 data));
  };
  EXPECT_THAT(two("[0, 2]", "[1, 3]", "abc"), HasSubstr("overlaps"));
  EXPECT_THAT(two("[0, 2]", "[0, 2]", "ab"), HasSubstr("overlaps"));
  EXPECT_THAT(two("[0, 2]", "[3, 5]", "abcde"), HasSubstr("leaves a hole"));
  EXPECT_THAT(two("[1, 3]", "[3, 5]", "abcde"), HasSubstr("leaves a hole"));
  EXPECT_THAT(two("[0, 2]", "[2, 4]", "abcde"), HasSubstr("the last 1 bytes"));
}

TEST(Safetensors, RandomByteFlipsNeverReadOutsideTheFile) {
  constexpr uint64_t kSeed = 20260611;
  SCOPED_TRACE(kSeed);
  SeededRandom random(kSeed);
  const std::string good = WriteSafetensors({{"z", "F32", {2, 1}, "12345678"}, {"a", "BF16", {3}, "abcdef"}});
  int opened = 0, refused = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string bytes = good;
    for (uint64_t flips = 1 + random.Below(3); flips > 0; --flips) {
      bytes[random.Below(bytes.size())] = static_cast<char>(random.Next64());
    }
    const auto tensors = ParseSafetensors(bytes, "w");
    tensors.ok() ? ++opened : ++refused;
    if (!tensors.ok()) continue;
    for (const SafetensorsTensor& tensor : *tensors) {
      const auto* begin = reinterpret_cast<const uint8_t*>(bytes.data());
      EXPECT_GE(tensor.data, begin);
      EXPECT_LE(tensor.data + tensor.bytes, begin + bytes.size());
    }
  }
  // Some flips must pass and some must fail: names and data may hold any value, but the structure may not.
  EXPECT_GT(opened, 100);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace baton::modelfile
