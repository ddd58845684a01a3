// tokenizer.json: which steps are known and what is refused.
#include "modelfile/hf_tokenizer.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "modelfile/limits.h"
#include "modelfile/testing/error_text.h"

namespace baton::modelfile {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int32_t kVocab = 8;

// Like Gemma's file, with six tokens of which two are added. Ids 6 and 7 have no token.
Json Pieces() {
  return Json::parse(R"({
    "added_tokens": [
      {"id": 0, "content": "<bos>", "special": true, "normalized": false, "lstrip": false},
      {"id": 5, "content": "\n\n", "special": false, "normalized": false}],
    "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false},
    "post_processor": {"type": "TemplateProcessing", "single": [
      {"SpecialToken": {"id": "<bos>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]},
    "decoder": {"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]},
    "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "byte_fallback": true, "ignore_merges": false,
      "vocab": {"<bos>": 0, "<unk>": 1, "▁": 2, "a": 3, "▁a": 4}, "merges": [["▁", "a"]]}})");
}

Json ByteLevel() {
  return Json::parse(R"({
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
    "decoder": {"type": "ByteLevel"},
    "model": {"vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})");
}

Json With(Json json, const std::string& pointer, const Json& value) {
  json[Json::json_pointer("/" + pointer)] = value;
  // Parsing makes numbers that are not negative unsigned, as those of a file are.
  return Json::parse(json.dump());
}

absl::StatusOr<TokenizerSpec> Read(const Json& json) {
  const auto file = ParseHfTokenizer(json.dump());
  if (!file.ok()) return file.status();
  return ReadHfTokenizer(*file, kVocab);
}

std::string TokenizerError(const Json& json, absl::StatusCode code = kInvalid) { return ErrorText(Read(json), code); }

TEST(HfTokenizerJson, KeepsTheEntriesOfUsualFilesApart) {
  for (const Json& json : {Pieces(), ByteLevel()}) {
    const auto file = ParseHfTokenizer(json.dump());
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE(file->vocab.has_value() && file->merges.has_value());
    EXPECT_EQ(file->vocab->size(), json["model"]["vocab"].size());
    EXPECT_EQ(file->merges->size(), 1u);
    Json rest = json;
    rest["model"].erase("vocab");
    rest["model"].erase("merges");
    EXPECT_EQ(file->json, rest);
  }
  EXPECT_THAT(*ParseHfTokenizer(Pieces().dump())->merges, ElementsAre("▁ a"));
  EXPECT_THAT(*ParseHfTokenizer(ByteLevel().dump())->merges, ElementsAre("a b"));
}

TEST(HfTokenizerJson, IsPlainJsonWhereTheFileIsUnusual) {
  for (const char* text : {
           R"({"model": {"vocab": {"a": -1}, "merges": []}})",
           R"({"model": {"vocab": {"a": {"b": 1}}}})",
           R"({"model": {"merges": [["a", "b", "c"]]}})",
           R"({"model": {"merges": [["a"]]}})",
           R"({"model": {"merges": [[["a"]]]}})",
           R"({"model": {"merges": ["a b", 1]}})",
           R"({"model": {"vocab": {"a": 1}, "vocab": {"b": 2}}})",
           R"({"model": {"vocab": {"a": 1}}, "model": {"type": "BPE"}})",
           R"({"model": 1, "vocab": {"a": 1}, "merges": [["a", "b"]], "x": [[{"y": 1.5}, true, null, "z"]]})",
       }) {
    const auto file = ParseHfTokenizer(text);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(file->json, Json::parse(text));
    EXPECT_FALSE(file->vocab.has_value() || file->merges.has_value());
  }
  for (const char* text : {"", "[]", "1", "{", R"({"model": {"vocab": {"a")", R"({"model": {"merges": [["a", "b"]})"}) {
    EXPECT_EQ(ParseHfTokenizer(text).status().code(), kInvalid) << text;
  }
}

TEST(HfTokenizer, ReadsSentencePieceStyleBpe) {
  const auto spec = Read(Pieces());
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->model, "llama");
  EXPECT_THAT(spec->tokens, ElementsAre("<bos>", "<unk>", "▁", "a", "▁a", "\n\n", "[PAD6]", "[PAD7]"));
  EXPECT_THAT(spec->token_types,
              ElementsAre(TokenType::kControl, TokenType::kNormal, TokenType::kNormal, TokenType::kNormal,
                          TokenType::kNormal, TokenType::kUserDefined, TokenType::kUnused, TokenType::kUnused));
  EXPECT_THAT(spec->merges, ElementsAre("▁ a"));
  EXPECT_EQ(spec->unknown_id, 1);
  EXPECT_EQ(spec->bos_id, 0);
  EXPECT_TRUE(spec->add_bos);
  EXPECT_EQ(spec->space_prefix, SpacePrefix::kNone);
}

TEST(HfTokenizer, ReadsTheSpacePrefixOfEitherStyle) {
  Json json = Pieces();
  const Json strip = {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
  json["decoder"]["decoders"].push_back(strip);
  const Json prepend = {{"type", "Prepend"}, {"prepend", "▁"}};
  const Json sequence = {{"type", "Sequence"}, {"normalizers", Json::array({prepend, json["normalizer"]})}};
  Json each = With(json, "normalizer", sequence);
  each["pre_tokenizer"] = nullptr;
  EXPECT_EQ(Read(each)->space_prefix, SpacePrefix::kEach);
  Json first = With(json, "normalizer", nullptr);
  first["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}, {"split", false}};
  EXPECT_EQ(Read(first)->space_prefix, SpacePrefix::kFirst);
  first["pre_tokenizer"]["prepend_scheme"] = "always";
  EXPECT_THAT(TokenizerError(first, kUnimplemented), HasSubstr("pre_tokenizer"));
  // The decoder must remove what the normalizer put before the text, and nothing else.
  EXPECT_THAT(TokenizerError(json, kUnimplemented), HasSubstr("decoder"));
}

TEST(HfTokenizer, KnowsByteLevelFamiliesByTheirSteps) {
  EXPECT_EQ(Read(ByteLevel())->pre_tokenizer, "gpt-2");
  EXPECT_EQ(Read(ByteLevel())->model, "gpt2");
  EXPECT_EQ(Read(ByteLevel())->ignore_merges, false);
  const Json plain = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const std::string llama3 =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  Json split = {{"type", "Split"}, {"pattern", {{"Regex", llama3}}}, {"behavior", "Isolated"}, {"invert", false}};
  const auto steps = [&](const Json& first) {
    return With(ByteLevel(), "pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", Json::array({first, plain})}});
  };
  EXPECT_EQ(Read(steps(split))->pre_tokenizer, "llama-bpe");
  split["pattern"]["Regex"] = "(a+)+$";
  EXPECT_THAT(TokenizerError(steps(split), kUnimplemented), HasSubstr("pre_tokenizer"));
}

TEST(HfTokenizer, RefusesStepsThatItDoesNotKnow) {
  EXPECT_THAT(TokenizerError(With(ByteLevel(), "normalizer", {{"type", "NFC"}}), kUnimplemented),
              HasSubstr("normalizer"));
  EXPECT_THAT(TokenizerError(With(ByteLevel(), "pre_tokenizer/add_prefix_space", true), kUnimplemented),
              HasSubstr("pre_tokenizer"));
  EXPECT_THAT(TokenizerError(With(ByteLevel(), "pre_tokenizer", nullptr), kUnimplemented), HasSubstr("pre_tokenizer"));
  EXPECT_THAT(TokenizerError(With(ByteLevel(), "decoder", nullptr), kUnimplemented), HasSubstr("decoder"));
  EXPECT_THAT(TokenizerError(With(ByteLevel(), "model/type", "Unigram"), kUnimplemented), HasSubstr("type"));
  EXPECT_THAT(TokenizerError(With(ByteLevel(), "model/dropout", 0.1), kUnimplemented), HasSubstr("dropout"));
  EXPECT_THAT(TokenizerError(With(ByteLevel(), "model/end_of_word_suffix", "</w>"), kUnimplemented),
              HasSubstr("suffix"));
  EXPECT_THAT(TokenizerError(With(Pieces(), "normalizer", nullptr), kUnimplemented), HasSubstr("normalizer"));
  EXPECT_THAT(TokenizerError(With(Pieces(), "post_processor/type", "Roberta"), kUnimplemented),
              HasSubstr("post_processor"));
  Json after = Pieces();
  after["post_processor"]["single"].push_back(after["post_processor"]["single"][0]);
  EXPECT_THAT(TokenizerError(after, kUnimplemented), HasSubstr("post_processor"));
  for (const char* flag : {"lstrip", "rstrip", "single_word", "normalized"}) {
    EXPECT_THAT(TokenizerError(With(Pieces(), std::string("added_tokens/0/") + flag, true), kUnimplemented),
                HasSubstr(flag));
  }
}

TEST(HfTokenizer, RefusesDamage) {
  EXPECT_THAT(TokenizerError(Json::object()), HasSubstr("model is missing"));
  EXPECT_THAT(TokenizerError(With(ByteLevel(), "model/vocab", Json::array())), HasSubstr("vocab"));
  EXPECT_THAT(TokenizerError(With(ByteLevel(), "model/merges", nullptr)), HasSubstr("merges is missing"));
  for (const Json& id : {Json(-1), Json(kVocab), Json("0"), Json(nullptr), Json(0.5), Json(UINT64_MAX)}) {
    EXPECT_THAT(TokenizerError(With(ByteLevel(), "model/vocab/a", id)),
                HasSubstr("must be below config.json's vocab_size 8"))
        << id;
  }
  EXPECT_THAT(TokenizerError(With(ByteLevel(), "model/vocab/b", 0)), HasSubstr("have the same id 0"));
  EXPECT_THAT(TokenizerError(With(ByteLevel(), "model/vocab/" + std::string(kMaxTokenBytes + 1, 'x'), 5)),
              HasSubstr("1025 bytes"));
  for (const Json& merge : {Json("a"), Json("a b c"), Json(1), Json({"a"}), Json({"a", "b", "c"}), Json({"a", " b"}),
                            Json({"a", 1}), Json("")}) {
    EXPECT_THAT(TokenizerError(With(ByteLevel(), "model/merges/0", merge)), HasSubstr("merge 0")) << merge;
  }
  EXPECT_THAT(TokenizerError(With(Pieces(), "added_tokens/0/content", "<x>")), HasSubstr("have the same id"));
  EXPECT_THAT(TokenizerError(With(Pieces(), "added_tokens/0", 1)), HasSubstr("a token has 0 bytes"));
  EXPECT_THAT(TokenizerError(With(Pieces(), "model/unk_token", "x")), HasSubstr("unk_token"));
  EXPECT_THAT(TokenizerError(With(Pieces(), "post_processor/single/0/SpecialToken/id", "x")),
              HasSubstr("which is no token"));
}

TEST(HfTokenizerConfig, ReadsSpecialTokensAndTemplates) {
  TokenizerSpec spec = *Read(Pieces());
  const Json config = Json::parse(R"({"bos_token": {"content": "<unk>"}, "eos_token": "a", "pad_token": null,
    "add_bos_token": false, "chat_template": [{"name": "tools", "template": "T"}, {"name": "default", "template": "D"}]})");
  ASSERT_TRUE(ReadHfTokenizerConfig(config, &spec).ok());
  EXPECT_EQ(spec.bos_id, 1);
  EXPECT_EQ(spec.eos_id, 3);
  EXPECT_EQ(spec.padding_id, -1);
  EXPECT_FALSE(spec.add_bos);
  EXPECT_EQ(spec.chat_template, "D");
}

TEST(HfTokenizerConfig, RefusesWhatItCannotFind) {
  const auto error = [](const char* text) {
    TokenizerSpec spec = *Read(ByteLevel());
    const absl::Status status = ReadHfTokenizerConfig(Json::parse(text), &spec);
    EXPECT_EQ(status.code(), kInvalid);
    return std::string(status.message());
  };
  EXPECT_THAT(error(R"({"eos_token": "zzz"})"), HasSubstr("eos_token is \"zzz\", must be a token of tokenizer.json"));
  EXPECT_THAT(error(R"({"bos_token": 1})"), HasSubstr("bos_token"));
  EXPECT_THAT(error(R"({"add_bos_token": true})"), HasSubstr("bos_token is missing"));
  EXPECT_THAT(error(R"({"chat_template": 3})"), HasSubstr("chat_template"));
}

}  // namespace
}  // namespace baton::modelfile
