#include "gateway/json_text.h"

#include <string>
#include <string_view>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::gateway {
namespace {

using ::testing::ElementsAre;

TEST(JsonTextTest, FindsWhatAParserFinds) {
  constexpr std::string_view kText =
      R"( { "a" : 1 , "b\u0063" : [ -1.5e3 , "x,]\"y" ,{ "c" : [ ] }, true], "a" : { "d":null } } )";
  EXPECT_EQ(JsonMember(kText, "a"), R"({ "d":null })");
  EXPECT_EQ(JsonMember(kText, "x"), "");
  EXPECT_EQ(JsonMember("[1]", "x"), "");
  EXPECT_THAT(JsonItems(JsonMember(kText, "bc")), ElementsAre("-1.5e3", R"("x,]\"y")", R"({ "c" : [ ] })", "true"));
  EXPECT_THAT(JsonItems("[]"), ElementsAre());
  EXPECT_THAT(JsonItems(" [ 7 ] "), ElementsAre("7"));
  EXPECT_THAT(JsonItems("{}"), ElementsAre());
  EXPECT_EQ(CompactJson(R"( { "a b" : [ 1 , "\" " ] } )"), R"({"a b":[1,"\" "]})");
}

}  // namespace
}  // namespace baton::gateway
