// SentencePiece-style tokenizers with a tiny vocabulary. oracle_test.cc compares with the libraries.
#include "tokenizer/sentencepiece.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tokenizer/stream_detokenizer.h"
#include "tokenizer/testing/encode.h"
#include "tokenizer/testing/tiny_spec.h"
#include "tokenizer/tokenizer.h"

namespace baton::tokenizer {
namespace {

using modelfile::SpacePrefix;
using testing::ElementsAre;

constexpr int32_t kPieceHello = kTinyWrittenSpaceId + 9;
constexpr int32_t kPieceSpaceHello = kTinyWrittenSpaceId + 10;
constexpr int32_t kH = kTinyWrittenSpaceId + 1;
constexpr char kReplacement[] = "\xEF\xBF\xBD";

int32_t ByteToken(uint8_t byte) { return kTinyFirstByteTokenId + byte; }

TEST(SentencePieceTest, MergesBestScoreFirst) {
  const auto tokenizer = MakeTokenizer(TinyPieceSpec());
  EXPECT_THAT(EncodeOk(*tokenizer, "hello hello"), ElementsAre(kPieceHello, kPieceSpaceHello));
  EXPECT_EQ(*tokenizer->Decode(Ids{kPieceHello, kPieceSpaceHello}, false), "hello hello");
}

TEST(SentencePieceTest, MergesOfTheFileGoBeforeScores) {
  modelfile::TokenizerSpec spec = TinyPieceSpec();
  spec.merges = {"l l"};
  EXPECT_THAT(EncodeOk(*MakeTokenizer(spec), "hell"), ElementsAre(kH, kH + 1, kTinyWrittenSpaceId + 7));
}

TEST(SentencePieceTest, MergesRunsOfSpacesAndFindsOtherUserDefinedTokens) {
  const auto tokenizer = MakeTokenizer(TinyPieceSpec());
  EXPECT_THAT(EncodeOk(*tokenizer, "h  h\n\n\nh"), ElementsAre(kH, 3, kH, 4, kTinyWrittenSpaceId + 5, kH));
  EXPECT_THAT(EncodeOk(*tokenizer, "   "), ElementsAre(3, kTinyWrittenSpaceId));
  EXPECT_EQ(*tokenizer->Decode(Ids{3}, false), "  ");
}

TEST(SentencePieceTest, CharactersWithoutATokenBecomeTheirBytes) {
  EXPECT_THAT(EncodeOk(*MakeTokenizer(TinyPieceSpec()), "\xE2\x82\xAC"),
              ElementsAre(ByteToken(0xE2), ByteToken(0x82), ByteToken(0xAC)));
}

TEST(SentencePieceTest, WithoutByteTokensARunBecomesOneUnknownToken) {
  modelfile::TokenizerSpec spec = TinyPieceSpec();
  spec.tokens[static_cast<size_t>(ByteToken(0x82))] = "no byte";
  EXPECT_THAT(EncodeOk(*MakeTokenizer(spec), "h\xE2\x82\xAC\xE2\x82\xACh"), ElementsAre(kH, 0, kH));
  spec.unknown_id = -1;
  EXPECT_THAT(EncodeOk(*MakeTokenizer(spec), "h\xE2\x82\xAC\xE2\x82\xACh"), ElementsAre(kH, kH));
}

TEST(SentencePieceTest, ControlTokensComeFromTheirTextAloneAndOnlyWhenAsked) {
  const auto tokenizer = MakeTokenizer(TinyPieceSpec());
  EXPECT_THAT(EncodeOk(*tokenizer, "<bos>h<unk>", {.add_bos = true}), ElementsAre(1, 1, kH, 0));
  EXPECT_THAT(EncodeOk(*tokenizer, "<bos>", {.parse_special = false}),
              testing::Each(testing::Ge(kTinyFirstByteTokenId)));
}

TEST(SentencePieceTest, PutsTheSpacePrefixWhereTheModelWantsItAndTakesItAwayAgain) {
  modelfile::TokenizerSpec spec = TinyPieceSpec();
  spec.space_prefix = SpacePrefix::kFirst;
  const auto first = MakeTokenizer(spec);
  EXPECT_THAT(EncodeOk(*first, "hello<eos>hello"), ElementsAre(kPieceSpaceHello, 2, kPieceHello));
  EXPECT_THAT(EncodeOk(*first, " hello"), ElementsAre(kPieceSpaceHello));
  EXPECT_THAT(EncodeOk(*first, "<eos>hello"), ElementsAre(2, kPieceHello));
  spec.space_prefix = SpacePrefix::kEach;
  const auto each = MakeTokenizer(spec);
  EXPECT_THAT(EncodeOk(*each, "hello<eos>hello"), ElementsAre(kPieceSpaceHello, 2, kPieceSpaceHello));
  EXPECT_THAT(EncodeOk(*each, " hello"), ElementsAre(3, kPieceHello));
  EXPECT_EQ(*each->Decode(Ids{kPieceSpaceHello, kPieceSpaceHello}, true), "hello hello");
  EXPECT_EQ(*each->Decode(Ids{1, kPieceSpaceHello}, true), "hello");
  EXPECT_EQ(*each->Decode(Ids{kTinyWrittenSpaceId, kPieceSpaceHello}, true), " hello");
}

TEST(SentencePieceTest, MergesAMebibyteInNearLinearTime) {
  const auto tokenizer = MakeTokenizer(TinyPieceSpec());
  for (const char* const unit : {"hello", "h", "l", " ", "\xE2\x82\xAC", "\n", "<bos", " hello"}) {
    ExpectEncodesAMebibyteFast(*tokenizer, unit);
  }
}

TEST(SentencePieceTest, RefusesAVocabularyWithoutMergesAndScores) {
  modelfile::TokenizerSpec spec = TinyPieceSpec();
  spec.scores.pop_back();
  EXPECT_EQ(Tokenizer::Create(spec).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ByteRunTest, AWholeRunIsValidOrEveryByteIsReplaced) {
  const auto tokenizer = MakeTokenizer(TinyPieceSpec());
  EXPECT_EQ(*tokenizer->Decode(Ids{ByteToken(0xE2), ByteToken(0x82), ByteToken(0xAC)}, false), "\xE2\x82\xAC");
  const std::string two = std::string(kReplacement) + kReplacement;
  EXPECT_EQ(*tokenizer->Decode(Ids{ByteToken('a'), ByteToken(0xFF)}, false), two);
  EXPECT_EQ(*tokenizer->Decode(Ids{ByteToken(0xE2), ByteToken(0x82), kH}, false), two + "h");
  EXPECT_EQ(*tokenizer->Decode(Ids{ByteToken(0xFF), ByteToken('a'), kH, ByteToken('b')}, false), two + "hb");
  // A special token that is skipped does not end the run.
  EXPECT_EQ(*tokenizer->Decode(Ids{ByteToken(0xE2), 2, ByteToken(0x82), ByteToken(0xAC)}, true), "\xE2\x82\xAC");
}

TEST(ByteRunTest, TheStreamWaitsForTheEndOfARun) {
  const auto tokenizer = MakeTokenizer(TinyPieceSpec());
  StreamDetokenizer stream(*tokenizer);
  for (const uint8_t byte : {0xE2, 0x82, 0xAC}) EXPECT_EQ(*stream.Push(ByteToken(byte)), "");
  EXPECT_EQ(stream.pending_bytes(), 3u);
  EXPECT_EQ(*stream.Push(kH),
            "\xE2\x82\xAC"
            "h");
  EXPECT_EQ(*stream.Push(ByteToken(0xE2)), "");
  EXPECT_EQ(*stream.Push(ByteToken('x')), std::string(kReplacement) + kReplacement);
  EXPECT_EQ(*stream.Push(ByteToken('y')), kReplacement) << "the run is already known to be invalid";
  EXPECT_EQ(stream.Flush(), "");
  EXPECT_EQ(*stream.Push(ByteToken(0xE2)), "");
  EXPECT_EQ(stream.Flush(), kReplacement);
}

TEST(ByteRunTest, ALongRunIsCutAfterAWholeCharacter) {
  const auto tokenizer = MakeTokenizer(TinyPieceSpec());
  StreamDetokenizer stream(*tokenizer);
  std::string text;
  for (int i = 0; i < 100; ++i) {
    for (const uint8_t byte : {0xE2, 0x82, 0xAC}) text += *stream.Push(ByteToken(byte));
    EXPECT_LE(stream.pending_bytes(), ByteRunDecoder::kMaxHeldRunBytes);
  }
  EXPECT_GE(text.size(), 300 - ByteRunDecoder::kMaxHeldRunBytes);
  text += stream.Flush();
  std::string expected;
  for (int i = 0; i < 100; ++i) expected += "\xE2\x82\xAC";
  EXPECT_EQ(text, expected);
}

TEST(ByteRunTest, KnowsByteTokensByTheirWrittenForm) {
  EXPECT_EQ(ByteOfToken("<0x0A>"), 10);
  EXPECT_EQ(ByteOfToken("<0xff>"), 255);
  for (const char* text : {"<0x0A", "<0xA>", "<0xGG>", "<0x+1>", "<0x 1>", "x0x0A>", "<0x0A>>", ""}) {
    EXPECT_EQ(ByteOfToken(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace baton::tokenizer
