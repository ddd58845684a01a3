#include "common/utf8.h"

#include <string>

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(Utf8, FollowsRfc3629) {
  for (const char* good :
       {"", "abc", "\xC2\x80", "\xE2\x82\xAC", "\xED\x9F\xBF", "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(IsValidUtf8(good)) << good;
  }
  for (const char* bad : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
                          "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x82", "\xE2\x82g", "a\xFF"}) {
    EXPECT_FALSE(IsValidUtf8(bad)) << testing::PrintToString(std::string(bad));
  }
}

TEST(Utf8, EachMaximalInvalidPieceBecomesOneReplacementCharacter) {
  EXPECT_EQ(DecodeUtf8Lossy("plain \xE2\x82\xAC"), "plain \xE2\x82\xAC");
  EXPECT_EQ(DecodeUtf8Lossy("a\xFFz"), "a\xEF\xBF\xBDz");
  EXPECT_EQ(DecodeUtf8Lossy("a\xE2\x82z"), "a\xEF\xBF\xBDz");
  EXPECT_EQ(DecodeUtf8Lossy("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD") << "a surrogate";
  EXPECT_EQ(DecodeUtf8Lossy("\xF0\x9F"), "\xEF\xBF\xBD") << "half a character";
}

TEST(Utf8, APrefixEndsBetweenCharacters) {
  EXPECT_EQ(DecodeUtf8LossyPrefix("ab\xE2\x82\xAC", 5), "ab\xE2\x82\xAC");
  EXPECT_EQ(DecodeUtf8LossyPrefix("ab\xE2\x82\xACz", 5), "ab\xE2\x82\xAC");
  EXPECT_EQ(DecodeUtf8LossyPrefix("ab\xE2\x82\xAC", 4), "ab");
  EXPECT_EQ(DecodeUtf8LossyPrefix("ab\xE2\x82\xAC", 2), "ab");
  EXPECT_EQ(DecodeUtf8LossyPrefix("ab\xE2\x82", 9), "ab\xEF\xBF\xBD") << "nothing was cut here";
  EXPECT_EQ(DecodeUtf8LossyPrefix("\xFF"
                                  "b\xE2",
                                  2),
            "\xEF\xBF\xBD"
            "b");
}

}  // namespace
}  // namespace baton
