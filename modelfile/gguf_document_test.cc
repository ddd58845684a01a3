// The container: good files, each kind of damage, and every limit, reached and exceeded.
#include "modelfile/gguf_document.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "common/utf8.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "modelfile/gguf_cursor.h"
#include "modelfile/limits.h"
#include "modelfile/testing/error_text.h"
#include "modelfile/testing/gguf_writer.h"
#include "modelfile/testing/smallest_llama.h"

namespace baton::modelfile {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kU64 = 10;
constexpr uint32_t kArray = 9;

absl::StatusOr<GgufDocument> ParseDocument(const std::vector<uint8_t>& bytes) {
  return GgufDocument::Parse(bytes.data(), bytes.size());
}

std::string DocumentError(const std::vector<uint8_t>& bytes, absl::StatusCode code = kInvalid) {
  return ErrorText(ParseDocument(bytes), code);
}
std::string DocumentError(const GgufWriter& writer, absl::StatusCode code = kInvalid) {
  return DocumentError(writer.Finish(), code);
}

template <typename T>
std::vector<uint8_t> Bytes(std::initializer_list<T> values) {
  std::vector<uint8_t> out;
  for (const T value : values) AppendLittleEndian(&out, value);
  return out;
}

std::vector<uint8_t> Patched(std::vector<uint8_t> bytes, size_t offset, uint64_t value, size_t size) {
  for (size_t i = 0; i < size; ++i) bytes[offset + i] = static_cast<uint8_t>(value >> (8 * i));
  return bytes;
}

GgufWriter SmallFile() {
  GgufWriter writer;
  writer.AddString("s", "text \n").AddU32("u", 7).AddF32("f", 0.5f).AddBool("b", true);
  writer.AddStringArray("sa", std::vector<std::string>{"a", "b", "c", "d", "e"});
  writer.AddI32Array("ia", std::vector<int32_t>{-1, 2}).AddF32Array("fa", std::vector<float>{1.5f});
  writer.AddRaw("u64", kU64, Bytes<uint64_t>({std::numeric_limits<uint64_t>::max()}));
  writer.AddF32Tensor("vector", 1, 3, std::vector<float>{1, 2, 3});
  writer.AddTensor(
      {.name = "q8", .type = TensorType::kQ8_0, .rows = 2, .cols = 64, .bytes = std::vector<uint8_t>(136)});
  writer.AddTensor({.name = "q4", .type = TensorType::kQ4_0, .rows = 1, .cols = 32, .bytes = std::vector<uint8_t>(18)});
  writer.AddTensor({.name = "half", .type = TensorType::kF16, .rows = 3, .cols = 1, .bytes = std::vector<uint8_t>(6)});
  return writer;
}

TEST(GgufDocument, ReadsEveryKindOfValue) {
  const std::vector<uint8_t> bytes = SmallFile().Finish();
  const auto document = ParseDocument(bytes);
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ(**document->String("s"), "text \n");
  EXPECT_EQ(**document->Integer("u"), 7);
  EXPECT_EQ(**document->Float("f"), 0.5);
  EXPECT_EQ(**document->Bool("b"), true);
  EXPECT_EQ((*document->StringArray("sa"))->size(), 5u);
  EXPECT_EQ(GgufInteger(*document->Find("ia"), 0), -1);
  EXPECT_EQ(document->Find("absent"), nullptr);
  EXPECT_EQ(*document->Integer("absent"), std::nullopt);
}

TEST(GgufDocument, ShowsValuesOnOneLineAndShortensArrays) {
  const std::vector<uint8_t> bytes = SmallFile().Finish();
  const auto document = ParseDocument(bytes);
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ(ShowGgufValue(*document->Find("s")), "text \\n");
  EXPECT_EQ(ShowGgufValue(*document->Find("sa")), "[a, b, c, d, ...]");
  EXPECT_EQ(ShowGgufType(*document->Find("sa")), "array of 5 string");
  EXPECT_EQ(ShowGgufValue(*document->Find("ia")), "[-1, 2]");
  EXPECT_EQ(ShowGgufValue(*document->Find("f")), "0.5");
  EXPECT_EQ(ShowGgufValue(*document->Find("b")), "true");
  EXPECT_EQ(ShowGgufValue(*document->Find("u64")), "18446744073709551615");
  // The euro sign has three bytes, and the text must be cut between characters.
  std::string euros;
  for (size_t i = 0; i < kMaxShownBytes; ++i) euros += "\xE2\x82\xAC";
  EXPECT_TRUE(IsValidUtf8(ShowText(euros)));
  EXPECT_THAT(ShowText(euros), HasSubstr("(480 bytes)"));
}

TEST(GgufDocument, WrongTypesAndRangesNameTheKey) {
  const std::vector<uint8_t> bytes = SmallFile().Finish();
  const auto document = ParseDocument(bytes);
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_THAT(std::string(document->Integer("u64").status().message()), HasSubstr("u64 is of type u64"));
  EXPECT_THAT(std::string(document->Integer("ia").status().message()), HasSubstr("ia is of type array of 2 i32"));
  EXPECT_FALSE(document->Float("u").ok());
  EXPECT_FALSE(document->Float("fa").ok());
  EXPECT_FALSE(document->Bool("u").ok());
  EXPECT_FALSE(document->String("sa").ok());
  EXPECT_FALSE(document->StringArray("s").ok());
}

TEST(GgufDocument, TensorsAreViewsOfTheRightPlaceAndShape) {
  GgufWriter writer = SmallFile();
  const std::vector<uint8_t> bytes = writer.Finish();
  const auto document = ParseDocument(bytes);
  ASSERT_TRUE(document.ok()) << document.status();
  const TensorView* vector = document->FindTensor("vector");
  ASSERT_NE(vector, nullptr);
  EXPECT_EQ(vector->rows, 1);
  EXPECT_EQ(vector->cols, 3);
  EXPECT_EQ(vector->bytes, 12u);
  float first[3];
  std::memcpy(first, vector->data, sizeof(first));
  EXPECT_THAT(first, ::testing::ElementsAre(1, 2, 3));
  const TensorView* q8 = document->FindTensor("q8");
  ASSERT_NE(q8, nullptr);
  EXPECT_EQ(q8->rows, 2);
  EXPECT_EQ(q8->bytes, 2u * 2 * 34);
  const TensorView* half = document->FindTensor("half");
  EXPECT_EQ(half->data + half->bytes, bytes.data() + bytes.size());
  for (const TensorView& tensor : document->tensors()) EXPECT_EQ((tensor.data - bytes.data()) % 32, 0) << tensor.name;
}

TEST(GgufDocument, TruncationAtEveryByteIsAnError) {
  const std::vector<uint8_t> bytes = SmallFile().Finish();
  for (size_t size = 0; size < bytes.size(); ++size) {
    // A copy of the exact size, so that a sanitizer sees a read past the end.
    const std::vector<uint8_t> cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_EQ(ParseDocument(cut).status().code(), absl::StatusCode::kInvalidArgument) << "cut to " << size;
  }
}

TEST(GgufDocument, RefusesOtherMagicVersionAndByteOrder) {
  const std::vector<uint8_t> bytes = SmallFile().Finish();
  EXPECT_THAT(DocumentError(std::vector<uint8_t>{}), HasSubstr("empty"));
  EXPECT_THAT(DocumentError(Patched(bytes, 0, 'X', 1)), HasSubstr("not a GGUF file"));
  EXPECT_THAT(DocumentError(Patched(bytes, 4, 2, 4), kUnimplemented), HasSubstr("version 2"));
  EXPECT_THAT(DocumentError(Patched(bytes, 4, 4, 4), kUnimplemented), HasSubstr("version 4"));
  EXPECT_THAT(DocumentError(Patched(bytes, 4, 0x03000000, 4), kUnimplemented), HasSubstr("big-endian"));
}

TEST(GgufDocument, RefusesCountsThatTheFileCannotHold) {
  const std::vector<uint8_t> bytes = SmallFile().Finish();
  EXPECT_THAT(DocumentError(Patched(bytes, 8, kMaxTensors, 8)), HasSubstr("more than the rest of the file"));
  EXPECT_THAT(DocumentError(Patched(bytes, 8, kMaxTensors + 1, 8)), HasSubstr("limit 65536"));
  EXPECT_THAT(DocumentError(Patched(bytes, 8, ~uint64_t{0}, 8)), HasSubstr("limit 65536"));
  EXPECT_THAT(DocumentError(Patched(bytes, 16, kMaxMetadataEntries, 8)), HasSubstr("more than the rest of the file"));
  EXPECT_THAT(DocumentError(Patched(bytes, 16, kMaxMetadataEntries + 1, 8)), HasSubstr("limit 4096"));
}

TEST(GgufDocument, MetadataEntriesAtAndOverTheLimit) {
  GgufWriter writer;
  for (uint64_t i = 0; i < kMaxMetadataEntries; ++i) writer.AddBool("key" + std::to_string(i), true);
  EXPECT_TRUE(ParseDocument(writer.Finish()).ok());
  writer.AddBool("one more", true);
  EXPECT_THAT(DocumentError(writer), HasSubstr("limit 4096"));
}

TEST(GgufDocument, TensorsAtAndOverTheLimit) {
  GgufWriter writer;
  for (uint64_t i = 0; i < kMaxTensors; ++i) {
    writer.AddRawTensor({.name = std::to_string(i), .dims = {1}, .type = 0, .offset = 32 * i});
  }
  std::vector<uint8_t> bytes = writer.Finish();
  bytes.resize(bytes.size() + 32 * kMaxTensors);
  EXPECT_TRUE(ParseDocument(bytes).ok());
  writer.AddRawTensor({.name = "one more", .dims = {1}, .type = 0, .offset = 32 * kMaxTensors});
  bytes = writer.Finish();
  bytes.resize(bytes.size() + 32 * kMaxTensors + 32);
  EXPECT_THAT(DocumentError(bytes), HasSubstr("limit 65536"));
}

TEST(GgufDocument, KeysAtAndOverTheLimit) {
  EXPECT_TRUE(ParseDocument(GgufWriter().AddU32(std::string(kMaxKeyBytes, 'k'), 1).Finish()).ok());
  EXPECT_THAT(DocumentError(GgufWriter().AddU32(std::string(kMaxKeyBytes + 1, 'k'), 1)),
              HasSubstr("has 257 bytes, limit"));
  EXPECT_THAT(DocumentError(GgufWriter().AddU32("", 1)), HasSubstr("empty key"));
  EXPECT_THAT(DocumentError(GgufWriter().AddU32("k", 1).AddU32("k", 1)), HasSubstr("key k stands twice"));
  EXPECT_THAT(DocumentError(GgufWriter().AddU32("\xFF\xFE", 1)), HasSubstr("UTF-8"));
}

TEST(GgufDocument, StringsAtAndOverTheLimit) {
  EXPECT_TRUE(ParseDocument(GgufWriter().AddString("k", std::string(kMaxStringBytes, 'x')).Finish()).ok());
  const std::string over(kMaxStringBytes + 1, 'x');
  EXPECT_THAT(DocumentError(GgufWriter().AddString("k", over)), HasSubstr("limit 1048576"));
  EXPECT_THAT(DocumentError(GgufWriter().AddStringArray("k", std::vector<std::string>{over})),
              HasSubstr("limit 1048576"));
  EXPECT_THAT(DocumentError(GgufWriter().AddString("k", "\xC3")), HasSubstr("UTF-8"));
  EXPECT_THAT(DocumentError(GgufWriter().AddStringArray("k", std::vector<std::string>{"a", "\xED\xA0\x80"})),
              HasSubstr("UTF-8"));
}

TEST(GgufDocument, ArraysAtAndOverTheLimit) {
  std::vector<uint8_t> payload = Bytes<uint32_t>({0});
  AppendLittleEndian<uint64_t>(&payload, kMaxArrayElements);
  payload.resize(payload.size() + kMaxArrayElements);
  EXPECT_TRUE(ParseDocument(GgufWriter().AddRaw("a", kArray, payload).Finish()).ok());
  payload[4] = 1;  // one more than a power of two
  payload.push_back(0);
  EXPECT_THAT(DocumentError(GgufWriter().AddRaw("a", kArray, payload)), HasSubstr("limit 4194304"));
}

TEST(GgufDocument, RefusesArraysThatCannotBe) {
  const auto array = [](uint32_t type, uint64_t count) {
    std::vector<uint8_t> payload = Bytes<uint32_t>({type});
    AppendLittleEndian(&payload, count);
    return payload;
  };
  EXPECT_TRUE(ParseDocument(GgufWriter().AddRaw("a", kArray, array(8, 0)).Finish()).ok());
  EXPECT_THAT(DocumentError(GgufWriter().AddRaw("a", kArray, array(8, 4096))),
              HasSubstr("more than the rest of the file"));
  EXPECT_THAT(DocumentError(GgufWriter().AddRaw("a", kArray, array(12, 4096))),
              HasSubstr("more than the rest of the file"));
  EXPECT_THAT(DocumentError(GgufWriter().AddRaw("a", kArray, array(9, 0))), HasSubstr("array of arrays"));
  EXPECT_THAT(DocumentError(GgufWriter().AddRaw("a", kArray, array(13, 0))), HasSubstr("unknown number 13"));
  EXPECT_THAT(DocumentError(GgufWriter().AddRaw("a", 13, {})), HasSubstr("unknown number 13"));
}

TEST(GgufDocument, RefusesBoolsOtherThanZeroAndOne) {
  EXPECT_THAT(DocumentError(GgufWriter().AddRaw("b", 7, Bytes<uint8_t>({2}))), HasSubstr("bool of 2"));
  std::vector<uint8_t> payload = Bytes<uint32_t>({7});
  AppendLittleEndian<uint64_t>(&payload, 2);
  AppendLittleEndian<uint16_t>(&payload, 0xFF01);
  EXPECT_THAT(DocumentError(GgufWriter().AddRaw("b", kArray, payload)), HasSubstr("bool of 255"));
}

TEST(GgufDocument, AlignmentIsABoundedPowerOfTwo) {
  for (const uint64_t good : {kMinAlignment, uint64_t{64}, kMaxAlignment}) {
    GgufWriter writer;
    writer.SetAlignment(static_cast<uint32_t>(good)).AddU32("general.alignment", static_cast<uint32_t>(good));
    writer.AddF32Tensor("a", 1, 1, std::vector<float>{1}).AddF32Tensor("b", 1, 1, std::vector<float>{2});
    const std::vector<uint8_t> bytes = writer.Finish();
    const auto document = ParseDocument(bytes);
    ASSERT_TRUE(document.ok()) << document.status();
    EXPECT_EQ(document->tensors()[1].data - document->tensors()[0].data, static_cast<ptrdiff_t>(good));
  }
  for (const uint32_t bad : {0u, 1u, 4u, 24u, 131072u, 0x80000000u}) {
    EXPECT_THAT(DocumentError(GgufWriter().AddU32("general.alignment", bad)), HasSubstr("power of two")) << bad;
  }
  EXPECT_THAT(DocumentError(GgufWriter().AddString("general.alignment", "32")), HasSubstr("general.alignment"));
}

TEST(GgufDocument, TensorNamesAreBoundedAndUnique) {
  const auto named = [](const std::string& name) {
    return GgufWriter().AddF32Tensor(name, 1, 1, std::vector<float>{1});
  };
  EXPECT_TRUE(ParseDocument(named(std::string(kMaxTensorNameBytes, 'n')).Finish()).ok());
  EXPECT_THAT(DocumentError(named(std::string(kMaxTensorNameBytes + 1, 'n'))), HasSubstr("limit 64"));
  EXPECT_THAT(DocumentError(named("")), HasSubstr("empty name"));
  EXPECT_THAT(DocumentError(named("n").AddF32Tensor("n", 1, 1, std::vector<float>{1})), HasSubstr("stands twice"));
}

TEST(GgufDocument, DimensionsAreBounded) {
  const auto shaped = [](std::vector<uint64_t> dims) {
    std::vector<uint8_t> bytes = GgufWriter().AddRawTensor({.name = "t", .dims = std::move(dims)}).Finish();
    bytes.resize(bytes.size() + 64);
    return bytes;
  };
  EXPECT_TRUE(ParseDocument(shaped({2, 3})).ok());
  EXPECT_TRUE(ParseDocument(shaped({2, 3, 1, 1})).ok());
  EXPECT_THAT(DocumentError(shaped({})), HasSubstr("0 dimensions"));
  EXPECT_TRUE(ParseDocument(shaped(std::vector<uint64_t>(kMaxTensorDims, 1))).ok());
  EXPECT_THAT(DocumentError(shaped(std::vector<uint64_t>(kMaxTensorDims + 1, 1))), HasSubstr("5 dimensions"));
  EXPECT_THAT(DocumentError(shaped({2, 0})), HasSubstr("dimension of 0"));
  EXPECT_THAT(DocumentError(shaped({2, 2, 2}), absl::StatusCode::kUnimplemented), HasSubstr("3 dimensions"));
  // At the limit, the error is that the file is too small.
  EXPECT_THAT(DocumentError(shaped({kMaxTensorDim})), HasSubstr("ends at byte"));
  EXPECT_THAT(DocumentError(shaped({kMaxTensorDim + 1})), HasSubstr("dimension of 2147483648"));
  EXPECT_THAT(DocumentError(shaped({kMaxTensorDim, kMaxTensorDim})), HasSubstr("ends at byte"));
  EXPECT_THAT(DocumentError(shaped({~uint64_t{0}, 2})), HasSubstr("dimension of"));
}

TEST(GgufDocument, ARowTakesTheBytesThatItsTypeSays) {
  struct Case {
    TensorType type;
    int64_t cols;
    size_t bytes;
  };
  for (const Case& c : {Case{TensorType::kQ5_0, 64, 44}, Case{TensorType::kQ4_K, 512, 288},
                        Case{TensorType::kQ5_K, 256, 176}, Case{TensorType::kQ6_K, 256, 210}}) {
    GgufTensorSpec tensor{.name = "t", .type = c.type, .rows = 3, .cols = c.cols};
    tensor.bytes.resize(3 * c.bytes);
    const auto whole = GgufWriter().AddTensor(tensor).Finish();
    const auto document = ParseDocument(whole);
    ASSERT_TRUE(document.ok()) << document.status();
    EXPECT_EQ(document->tensors()[0].bytes, 3 * c.bytes) << TensorTypeName(c.type);
    tensor.bytes.pop_back();
    EXPECT_THAT(DocumentError(GgufWriter().AddTensor(tensor).Finish()), HasSubstr("ends at byte"))
        << TensorTypeName(c.type);
  }
}

TEST(GgufDocument, TensorTypesThatAreNotRunAreNamed) {
  const auto typed = [](uint32_t type, uint64_t cols) {
    std::vector<uint8_t> bytes = GgufWriter().AddRawTensor({.name = "t", .dims = {cols}, .type = type}).Finish();
    bytes.resize(bytes.size() + 256);
    return bytes;
  };
  for (const uint32_t good : {0u, 1u, 2u, 3u, 6u, 8u, 12u, 13u, 14u, 30u}) {
    const auto bytes = typed(good, good == 0 ? 8 : good >= 12 && good <= 14 ? 256 : 32);
    const auto document = ParseDocument(bytes);
    ASSERT_TRUE(document.ok()) << document.status();
    EXPECT_EQ(GgufTensorTypeId(document->tensors()[0].type), good);
  }
  EXPECT_THAT(DocumentError(typed(10, 256), absl::StatusCode::kUnimplemented), HasSubstr("tensor t is of type Q2_K"));
  EXPECT_THAT(DocumentError(typed(31, 32)), HasSubstr("unknown type number 31"));
  EXPECT_THAT(DocumentError(typed(1000, 32)), HasSubstr("unknown type number 1000"));
  EXPECT_THAT(DocumentError(typed(8, 33)), HasSubstr("rows of 33 elements, not a multiple of 32 as Q8_0 needs"));
  EXPECT_THAT(DocumentError(typed(14, 288)), HasSubstr("rows of 288 elements, not a multiple of 256 as Q6_K needs"));
}

TEST(GgufDocument, RefusesTensorsOutsideTheFileMisalignedOrOverlapping) {
  const auto placed = [](uint64_t a, uint64_t b) {
    std::vector<uint8_t> bytes = GgufWriter()
                                     .AddRawTensor({.name = "a", .dims = {16}, .offset = a})
                                     .AddRawTensor({.name = "b", .dims = {16}, .offset = b})
                                     .Finish();
    bytes.resize(bytes.size() + 128);
    return bytes;
  };
  EXPECT_TRUE(ParseDocument(placed(0, 64)).ok());
  EXPECT_TRUE(ParseDocument(placed(64, 0)).ok());
  EXPECT_THAT(DocumentError(placed(0, 96)), HasSubstr("tensor b ends at byte"));
  EXPECT_THAT(DocumentError(placed(~uint64_t{0} - 31, 0)), HasSubstr("impossible size"));
  EXPECT_THAT(DocumentError(placed(uint64_t{1} << 63, 0)), HasSubstr("tensor a ends at byte"));
  EXPECT_THAT(DocumentError(placed(0, 65)), HasSubstr("alignment"));
  EXPECT_THAT(DocumentError(placed(0, 32)), HasSubstr("tensors a and b overlap"));
  EXPECT_THAT(DocumentError(placed(32, 32)), HasSubstr("overlap"));
}

// The memory goes on behind the file, so that only the cursor's own check can refuse.
TEST(GgufCursor, NothingIsReadBehindTheEndOfTheFile) {
  constexpr size_t kFileBytes = 12;
  const std::vector<uint8_t> memory(64, 0);
  GgufCursor values(memory.data(), kFileBytes);
  EXPECT_FALSE(values.Skip(13, 1, "values").ok());
  EXPECT_FALSE(values.Skip(4, 4, "values").ok());
  EXPECT_FALSE(values.Skip(~uint64_t{0}, 2, "values").ok());
  EXPECT_EQ(values.offset(), 0u);
  ASSERT_TRUE(values.Skip(3, 4, "values").ok());
  EXPECT_EQ(values.left(), 0u);
  EXPECT_FALSE(values.Read<uint8_t>("byte").ok());

  const auto text_of = [](uint8_t length) {
    std::vector<uint8_t> bytes(64, 'x');
    std::fill_n(bytes.begin(), sizeof(uint64_t), uint8_t{0});
    bytes[0] = length;
    GgufCursor cursor(bytes.data(), kFileBytes);
    return cursor.ReadString(kMaxStringBytes, "text").ok();
  };
  EXPECT_TRUE(text_of(4));
  EXPECT_FALSE(text_of(5));
}

TEST(GgufDocument, ALongArrayIsShownByItsFirstElements) {
  const auto shown = [](size_t elements) {
    const std::vector<int32_t> values(elements, 7);
    const std::vector<uint8_t> bytes = GgufWriter().AddI32Array("k", values).Finish();
    const auto document = ParseDocument(bytes);
    return ShowGgufValue(*document->Find("k"));
  };
  EXPECT_EQ(shown(kMaxShownElements), "[7, 7, 7, 7]");
  EXPECT_EQ(shown(kMaxShownElements + 1), "[7, 7, 7, 7, ...]");
}

}  // namespace
}  // namespace baton::modelfile
