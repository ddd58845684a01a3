// Equality with the `tokenizers` and `transformers` libraries over tests/data/tokenizer/*oracle.json, on the real
// models.
#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "common/utf8.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "modelfile/model_file.h"
#include "nlohmann/json.hpp"
#include "tokenizer/chat_template.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/rendered_chat.h"
#include "tokenizer/stream_detokenizer.h"
#include "tokenizer/tokenizer.h"

namespace baton::tokenizer {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

struct Model {
  const char* name;
  const char* oracle;  // in tests/data/tokenizer
};

// Reads the model and the recorded answers of the libraries. Tests are skipped if the store lacks a model other than
// the default one.
class OracleTest : public testing::Test {
 protected:
  explicit OracleTest(const Model& model) : model_(model) {}

  void SetUp() override {
    absl::StatusOr<std::string> path = modelfile::ResolveModel(model_.name);
    if (path.status().code() == absl::StatusCode::kNotFound && modelfile::kDefaultModel != model_.name) {
      GTEST_SKIP() << path.status().message();
    }
    ASSERT_TRUE(path.ok()) << path.status();
    absl::StatusOr<std::unique_ptr<modelfile::ModelFile>> file = modelfile::OpenModelFile(*path);
    ASSERT_TRUE(file.ok()) << file.status();
    absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::Create((*file)->tokenizer());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *std::move(tokenizer);
    chat_template_ = (*file)->tokenizer().chat_template;
    std::ifstream in(std::string(BATON_SOURCE_DIR "/tests/data/tokenizer/") + model_.oracle);
    oracle_ = json::parse(in);
  }

  const json& Oracle() const { return oracle_; }

  std::string StreamDecode(const Ids& ids, bool skip_special) const {
    StreamDetokenizer stream(*tokenizer_, skip_special);
    std::string text;
    for (const int32_t id : ids) {
      absl::StatusOr<std::string> piece = stream.Push(id);
      EXPECT_TRUE(piece.ok()) << piece.status();
      EXPECT_TRUE(IsValidUtf8(*piece)) << "half a character in \"" << *piece << "\"";
      text += *piece;
    }
    return text + stream.Flush();
  }

  void ExpectDecodes(const Ids& ids, bool skip_special, const std::string& expected) const {
    absl::StatusOr<std::string> decoded = tokenizer_->Decode(ids, skip_special);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(*decoded, expected) << testing::PrintToString(ids);
    EXPECT_EQ(StreamDecode(ids, skip_special), expected) << testing::PrintToString(ids);
  }

  const Model model_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::string chat_template_;
  json oracle_;
};

class EveryModel : public OracleTest, public testing::WithParamInterface<Model> {
 protected:
  EveryModel() : OracleTest(GetParam()) {}
};

constexpr Model kDefault = {modelfile::kDefaultModel.data(), "oracle.json"};

class DefaultModel : public OracleTest {
 protected:
  DefaultModel() : OracleTest(kDefault) {}
};

INSTANTIATE_TEST_SUITE_P(OracleTest, EveryModel, testing::Values(kDefault, Model{"gemma-3-270m", "gemma_oracle.json"}),
                         [](const auto& info) { return info.index == 0 ? "ByteLevel" : "SentencePiece"; });

TEST_P(EveryModel, EncodesAndDecodesTextsAsTheLibraryDoes) {
  const json& cases = Oracle().at("texts");
  ASSERT_GE(cases.size(), 2000u);
  for (const json& c : cases) {
    const std::string text = c.at("text");
    const Ids expected = c.at("ids");
    absl::StatusOr<Ids> ids = tokenizer_->Encode(text);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, expected) << "text: " << json(text).dump(-1, ' ', true);
    ExpectDecodes(expected, /*skip_special=*/false, c.value("decoded", text));
    ExpectDecodes(expected, /*skip_special=*/true, c.value("decoded_skip", text));
  }
}

TEST_P(EveryModel, TakesSpecialTokensAsPlainTextAsTheLibraryDoes) {
  for (const json& c : Oracle().at("texts")) {
    const std::string text = c.at("text");
    absl::StatusOr<Ids> ids = tokenizer_->Encode(text, {.parse_special = false});
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, c.value("ids_plain", c.at("ids").get<Ids>())) << "text: " << json(text).dump(-1, ' ', true);
  }
}

TEST_P(EveryModel, DecodesAnyIdsAsTheLibraryDoes) {
  for (const json& c : Oracle().at("ids")) {
    const Ids ids = c.at("ids");
    ExpectDecodes(ids, /*skip_special=*/false, c.at("decoded"));
    ExpectDecodes(ids, /*skip_special=*/true, c.at("decoded_skip"));
  }
}

TEST_F(DefaultModel, PreTokenizerFamiliesSplitAsTheLibraryDoes) {
  const json& families = Oracle().at("families");
  const std::vector<std::string> strings = families.at("strings");
  for (const auto& [name, lengths] : families.at("lengths").items()) {
    const PreTokenizerFamily* family = FindPreTokenizerFamily(name);
    ASSERT_NE(family, nullptr) << name;
    absl::StatusOr<std::unique_ptr<PreTokenizer>> pre_tokenizer = PreTokenizer::Create(*family);
    ASSERT_TRUE(pre_tokenizer.ok()) << pre_tokenizer.status();
    for (size_t i = 0; i < strings.size(); ++i) {
      std::vector<std::string_view> words;
      ASSERT_TRUE((*pre_tokenizer)->Split(strings[i], &words).ok());
      std::vector<size_t> actual;
      for (const std::string_view word : words) {
        if (!word.empty()) actual.push_back(CountCodePoints(word));
      }
      EXPECT_EQ(actual, lengths.at(i).get<std::vector<size_t>>())
          << name << " splits " << json(strings[i]).dump(-1, ' ', true);
    }
  }
}

// Recorded chats whose messages spell special tokens, which transformers parses.
bool SpellsSpecialTokens(const Tokenizer& tokenizer, const std::vector<ChatMessage>& messages) {
  return std::any_of(messages.begin(), messages.end(), [&](const ChatMessage& message) {
    return !tokenizer.FindSpecialSpellings(message.content).empty();
  });
}

TEST_F(DefaultModel, ChatsHaveTheTokensOfTransformersUnlessTheySpellSpecialTokens) {
  absl::StatusOr<ChatTemplate> chat_template = ChatTemplate::Parse(chat_template_);
  ASSERT_TRUE(chat_template.ok()) << chat_template.status();
  int equal = 0;
  int spelled = 0;
  for (const json& c : Oracle().at("chats")) {
    if (!c.at("add_generation_prompt")) continue;
    std::vector<ChatMessage> messages;
    for (const json& m : c.at("messages")) messages.push_back({m.at("role"), m.at("content")});
    absl::StatusOr<RenderedChat> chat = RenderChat(*chat_template, *tokenizer_, {.messages = messages});
    ASSERT_TRUE(chat.ok()) << chat.status();
    EXPECT_EQ(chat->text, c.at("text").get<std::string>());
    absl::StatusOr<Ids> ids = tokenizer_->Encode(chat->text, {.literal_at = chat->literal_at});
    ASSERT_TRUE(ids.ok()) << ids.status();
    const bool is_spelled = SpellsSpecialTokens(*tokenizer_, messages);
    EXPECT_EQ(*ids != c.at("ids").get<Ids>(), is_spelled) << chat->text;
    EXPECT_EQ(chat->literal_at.empty(), !is_spelled);
    ++(is_spelled ? spelled : equal);
  }
  EXPECT_EQ(spelled, 1);
  EXPECT_EQ(equal, 14);
}

TEST_F(DefaultModel, RendersChatsAsTransformersDoes) {
  absl::StatusOr<ChatTemplate> chat_template = ChatTemplate::Parse(chat_template_);
  ASSERT_TRUE(chat_template.ok()) << chat_template.status();
  for (const json& c : Oracle().at("chats")) {
    std::vector<ChatMessage> messages;
    for (const json& m : c.at("messages")) messages.push_back({m.at("role"), m.at("content")});
    absl::StatusOr<std::string> text =
        chat_template->RenderChat({.messages = messages,
                                   .add_generation_prompt = c.at("add_generation_prompt"),
                                   .bos_token = tokenizer_->TokenText(tokenizer_->bos_id()),
                                   .eos_token = tokenizer_->TokenText(tokenizer_->eos_id())});
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_EQ(*text, c.at("text").get<std::string>());
    absl::StatusOr<Ids> ids = tokenizer_->Encode(*text);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, c.at("ids").get<Ids>());
  }
}

}  // namespace
}  // namespace baton::tokenizer
