#include "tokenizer/tokenizer.h"

#include <string>
#include <vector>

#include "common/utf8.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tokenizer/stream_detokenizer.h"
#include "tokenizer/testing/encode.h"
#include "tokenizer/testing/tiny_spec.h"

namespace baton::tokenizer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int32_t kHello = kTinyFirstByteId + 256 + 3;
constexpr int32_t kSpaceHello = kTinyFirstByteId + 256 + 4;
constexpr int32_t kEuroPart = kTinyFirstByteId + 256 + 5;

int32_t ByteId(uint8_t byte) { return kTinyFirstByteId + byte; }

std::unique_ptr<Tokenizer> Tiny() { return MakeTokenizer(TinySpec()); }

absl::Status CreateStatus(const modelfile::TokenizerSpec& spec) { return Tokenizer::Create(spec).status(); }

TEST(TokenizerTest, MergesBestRankFirst) {
  EXPECT_THAT(EncodeOk(*Tiny(), "hello hello"), ElementsAre(kHello, kSpaceHello));
}

TEST(TokenizerTest, TakesTheLongestSpecialTokenAtAPlace) {
  EXPECT_THAT(EncodeOk(*Tiny(), "<|start|>x<|start|><|end|>"), ElementsAre(2, 1, 0));
}

TEST(TokenizerTest, FindsUserDefinedTokensEvenWhereSpecialOnesArePlainText) {
  const Ids ids = EncodeOk(*Tiny(), "<|end|>  \n", {.parse_special = false});
  EXPECT_THAT(ids, testing::Not(testing::Contains(0)));
  EXPECT_EQ(ids.back(), 3);
}

TEST(TokenizerTest, AddsBosOnlyWhereAskedAndWanted) {
  EXPECT_THAT(EncodeOk(*Tiny(), "", {.add_bos = true}), ElementsAre(1));
  EXPECT_THAT(EncodeOk(*Tiny(), ""), ElementsAre());
  modelfile::TokenizerSpec spec = TinySpec();
  spec.add_bos = false;
  EXPECT_THAT(EncodeOk(**Tokenizer::Create(spec), "", {.add_bos = true}), ElementsAre());
}

TEST(TokenizerTest, RefusesInvalidUtf8AndSaysWhere) {
  for (const std::string bad : {"ab\xFF", "ab\xC3", "ab\xED\xA0\x80", "ab\xC0\x80", "ab\xF4\x90\x80\x80", "ab\x80"}) {
    const absl::Status status = Tiny()->Encode(bad).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("not valid UTF-8 at byte 2"));
  }
}

TEST(TokenizerTest, TakesTextUpToItsLimit) {
  const std::unique_ptr<Tokenizer> tokenizer = Tiny();
  EXPECT_EQ(tokenizer->Encode(std::string(kMaxEncodeBytes + 1, 'a')).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(EncodeOk(*tokenizer, std::string(kMaxEncodeBytes, 'a')).size(), kMaxEncodeBytes);
}

TEST(TokenizerTest, MergesAMebibyteWithoutSpacesInNearLinearTime) {
  const std::unique_ptr<Tokenizer> tokenizer = Tiny();
  for (const char* const unit : {"hello", "h", "l", " ", "\xE2\x82\xAC", "'", "1", "<", "<|start|"}) {
    ExpectEncodesAMebibyteFast(*tokenizer, unit);
  }
}

TEST(TokenizerTest, DropsBytesThatTheVocabularyLacks) {
  modelfile::TokenizerSpec spec = TinySpec();
  spec.tokens[ByteId('z')] = "unreachable";
  EXPECT_THAT(EncodeOk(**Tokenizer::Create(spec), "hzello"), ElementsAre(kHello));
}

TEST(TokenizerTest, StopsWhereThereAreMoreTokensThanAskedFor) {
  const std::unique_ptr<Tokenizer> tokenizer = Tiny();
  EXPECT_THAT(EncodeOk(*tokenizer, "hello hello", {.max_ids = 2}), ElementsAre(kHello, kSpaceHello));
  EXPECT_EQ(tokenizer->Encode("hello hello", {.max_ids = 1}).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(tokenizer->Encode("<|end|><|end|>", {.max_ids = 1}).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(MakeTokenizer(TinyPieceSpec())->Encode("hello h", {.max_ids = 1}).status().code(),
            absl::StatusCode::kOutOfRange);
}

TEST(TokenizerTest, NoTextHasFewerTokensThanItsBytesSay) {
  // The longest token is "<|start|>x".
  const std::unique_ptr<Tokenizer> tokenizer = Tiny();
  EXPECT_EQ(tokenizer->MinTokens(""), 0u);
  EXPECT_EQ(tokenizer->MinTokens("<|start|>x"), 1u);
  EXPECT_EQ(tokenizer->MinTokens("<|start|>x<"), 2u);
  // Its longest token as it is written is " hello", whose space is three bytes.
  const std::unique_ptr<Tokenizer> pieces = MakeTokenizer(TinyPieceSpec());
  for (const char* const text :
       {"\xE2\x96\x81hello\xE2\x96\x81hello", " hello hello", "\n\n\n", "\xE2\x82\xAC", "x  y"}) {
    EXPECT_LE(pieces->MinTokens(text), EncodeOk(*pieces, text).size()) << text;
    EXPECT_LE(tokenizer->MinTokens(text), EncodeOk(*tokenizer, text).size()) << text;
  }
  EXPECT_GT(pieces->MinTokens(std::string(1000, 'x')), 0u);
}

TEST(TokenizerTest, BytesThatMayVanishCountForNoToken) {
  modelfile::TokenizerSpec spec = TinySpec();
  spec.tokens[ByteId('z')] = "unreachable";
  EXPECT_EQ(MakeTokenizer(spec)->MinTokens(std::string(1000, 'z')), 0u);
  spec = TinyPieceSpec();
  spec.tokens[kTinyFirstByteTokenId + 'z'] = "unreachable";
  EXPECT_EQ(MakeTokenizer(spec)->MinTokens(std::string(1000, 'z')), 0u);
}

TEST(TokenizerTest, DecodesTextUpToABound) {
  const std::unique_ptr<Tokenizer> tokenizer = Tiny();
  const Ids ids = {kHello, kSpaceHello, kEuroPart};
  const std::string text = "hello hello\xEF\xBF\xBD";
  EXPECT_EQ(*tokenizer->Decode(ids, false, text.size()), text);
  EXPECT_EQ(tokenizer->Decode(ids, false, text.size() - 1).status().code(), absl::StatusCode::kOutOfRange);
}

TEST(TokenizerTest, DecodesMaximalInvalidPartsToOneReplacementEach) {
  const std::unique_ptr<Tokenizer> tokenizer = Tiny();
  EXPECT_EQ(*tokenizer->Decode(Ids{kEuroPart, ByteId(0xAC)}, false), "\xE2\x82\xAC");
  EXPECT_EQ(*tokenizer->Decode(Ids{kEuroPart, ByteId('a')}, false),
            "\xEF\xBF\xBD"
            "a");
  EXPECT_EQ(*tokenizer->Decode(Ids{ByteId(0xFF), ByteId(0xE2)}, false), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(*tokenizer->Decode(Ids{kEuroPart, 0, ByteId(0xAC)}, true), "\xE2\x82\xAC");
  EXPECT_EQ(*tokenizer->Decode(Ids{kEuroPart, 0}, false), "\xEF\xBF\xBD<|end|>");
}

TEST(TokenizerTest, RefusesIdsOutsideTheVocabulary) {
  const std::unique_ptr<Tokenizer> tokenizer = Tiny();
  for (const int32_t id : {-1, tokenizer->vocab_size(), INT32_MAX, INT32_MIN}) {
    EXPECT_EQ(tokenizer->Decode(Ids{id}, true).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_FALSE(tokenizer->IsSpecial(id));
  }
}

TEST(TokenizerTest, KnowsWhichTokensAreSpecial) {
  const std::unique_ptr<Tokenizer> tokenizer = Tiny();
  EXPECT_TRUE(tokenizer->IsSpecial(0));
  EXPECT_FALSE(tokenizer->IsSpecial(3));
  EXPECT_FALSE(tokenizer->IsSpecial(kHello));
  EXPECT_EQ(tokenizer->TokenBytes(kSpaceHello), " hello");
}

TEST(TokenizerTest, RefusesDamagedMetadata) {
  modelfile::TokenizerSpec spec = TinySpec();
  spec.token_types.pop_back();
  EXPECT_EQ(CreateStatus(spec).code(), absl::StatusCode::kInvalidArgument);
  spec = TinySpec();
  spec.tokens[10] = spec.tokens[11];
  EXPECT_EQ(CreateStatus(spec).code(), absl::StatusCode::kInvalidArgument);
  spec = TinySpec();
  spec.tokens[10] = "";
  EXPECT_EQ(CreateStatus(spec).code(), absl::StatusCode::kInvalidArgument);
  spec = TinySpec();
  spec.eos_id = static_cast<int32_t>(spec.tokens.size());
  EXPECT_EQ(CreateStatus(spec).code(), absl::StatusCode::kInvalidArgument);
  for (const std::string merge : {"", "a", "a ", " a", "a nosuchtoken", "a b"}) {
    spec = TinySpec();
    spec.merges.push_back(merge);
    EXPECT_EQ(CreateStatus(spec).code(), absl::StatusCode::kInvalidArgument) << merge;
  }
  modelfile::TokenizerSpec no_tokens;
  no_tokens.model = "gpt2";
  no_tokens.pre_tokenizer = "smollm";
  EXPECT_EQ(CreateStatus(no_tokens).code(), absl::StatusCode::kInvalidArgument);
}

TEST(TokenizerTest, NamesWhatItDoesNotSupport) {
  modelfile::TokenizerSpec spec = TinySpec();
  spec.model = "t5";
  EXPECT_EQ(CreateStatus(spec).code(), absl::StatusCode::kUnimplemented);
  spec = TinySpec();
  spec.pre_tokenizer = "nosuchfamily";
  EXPECT_EQ(CreateStatus(spec).code(), absl::StatusCode::kUnimplemented);
}

TEST(StreamDetokenizerTest, HoldsBackUnfinishedCharacters) {
  const std::unique_ptr<Tokenizer> tokenizer = Tiny();
  StreamDetokenizer stream(*tokenizer);
  EXPECT_EQ(*stream.Push(kEuroPart), "");
  EXPECT_EQ(stream.pending_bytes(), 2u);
  EXPECT_EQ(*stream.Push(ByteId(0xAC)), "\xE2\x82\xAC");
  EXPECT_EQ(*stream.Push(kEuroPart), "");
  EXPECT_EQ(*stream.Push(0), "") << "a skipped special token does not end the character";
  EXPECT_FALSE(stream.Push(-1).ok());
  EXPECT_EQ(stream.Flush(), "\xEF\xBF\xBD");
  EXPECT_EQ(stream.Flush(), "");
}

TEST(StreamDetokenizerTest, ReplacesAtOnceWhatCannotBecomeACharacter) {
  const std::unique_ptr<Tokenizer> tokenizer = Tiny();
  StreamDetokenizer stream(*tokenizer, /*skip_special=*/false);
  EXPECT_EQ(*stream.Push(ByteId(0x80)), "\xEF\xBF\xBD");
  EXPECT_EQ(*stream.Push(ByteId(0xE2)), "");
  EXPECT_EQ(*stream.Push(0), "\xEF\xBF\xBD<|end|>");
}

TEST(Utf8Test, CountsAndCodesEveryScalarValue) {
  for (uint32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    AppendUtf8(c, &text);
    ASSERT_TRUE(IsValidUtf8(text)) << c;
    size_t offset = 0;
    ASSERT_EQ(NextCodePoint(text, &offset), c);
    ASSERT_EQ(offset, text.size());
    ASSERT_EQ(CountCodePoints(text), 1u);
  }
}

}  // namespace
}  // namespace baton::tokenizer
