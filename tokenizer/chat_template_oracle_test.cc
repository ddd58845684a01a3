// Equality with transformers' Jinja environment over tests/data/tokenizer/template_cases.json: single expressions,
// white space, statements, and templates in the manner of the model families, each with several chats.
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tokenizer/chat_template.h"

namespace baton::tokenizer {
namespace {

using Json = nlohmann::ordered_json;

absl::StatusOr<std::string> Render(const std::string& source, const Json& variables) {
  absl::StatusOr<ChatTemplate> chat_template = ChatTemplate::Parse(source);
  if (!chat_template.ok()) return chat_template.status();
  return chat_template->Render(variables);
}

TEST(ChatTemplateOracleTest, RendersAndFailsAsTransformersDoes) {
  std::ifstream file(BATON_SOURCE_DIR "/tests/data/tokenizer/template_cases.json");
  const Json oracle = Json::parse(file);
  ASSERT_GE(oracle.at("cases").size(), 500u);
  for (const Json& c : oracle.at("cases")) {
    const std::string source = c.at("template");
    SCOPED_TRACE(Json(source.substr(0, 200)).dump());
    if (c.contains("variables")) SCOPED_TRACE(c.at("variables").dump());
    const absl::StatusOr<std::string> text =
        Render(source, c.contains("variables") ? c.at("variables") : oracle.at("variables"));
    if (c.at("text").is_null()) {
      // RESOURCE_EXHAUSTED is possible because Jinja's sandbox, too, limits range.
      EXPECT_THAT(text.status().code(),
                  testing::AnyOf(absl::StatusCode::kInvalidArgument, absl::StatusCode::kResourceExhausted))
          << text.status() << text.value_or("");
    } else {
      EXPECT_EQ(text.value_or("error"), c.at("text").get<std::string>()) << text.status();
    }
  }
}

}  // namespace
}  // namespace baton::tokenizer
