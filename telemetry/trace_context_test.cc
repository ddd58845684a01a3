// The cases of the W3C's own test suite for Trace Context, and the bounds of baggage.
#include "telemetry/trace_context.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::telemetry {
namespace {

constexpr char kTestTraceparent[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST(Traceparent, IsReadAndWrittenAsItStands) {
  const std::optional<TraceParent> parent = ParseTraceparent(kTestTraceparent);
  ASSERT_TRUE(parent.has_value());
  EXPECT_EQ(parent->trace_id, (Id128{0x0af7651916cd43dd, 0x8448eb211c80319c}));
  EXPECT_EQ(parent->span_id, 0xb7ad6b7169203331);
  EXPECT_TRUE(parent->sampled());
  EXPECT_EQ(FormatTraceparent(*parent), kTestTraceparent);
}

TEST(Traceparent, OnlyTheSampledFlagDecidesAndUnknownFlagsAreNotPassedOn) {
  const auto flags = [](std::string_view digits) {
    return ParseTraceparent(absl::StrCat("00-12345678901234567890123456789012-1234567890123456-", std::string(digits)));
  };
  EXPECT_FALSE(flags("00")->sampled());
  EXPECT_FALSE(flags("fe")->sampled());
  EXPECT_TRUE(flags("ff")->sampled());
  EXPECT_THAT(FormatTraceparent(*flags("ff")), testing::EndsWith("-03"));
  EXPECT_THAT(FormatTraceparent(*flags("f0")), testing::EndsWith("-00"));
}

TEST(Traceparent, OfALaterVersionTheKnownPartIsRead) {
  const std::string known = "-12345678901234567890123456789012-1234567890123456-01";
  for (const char* more : {"", "-", "-what-the-future-will-be-like", "-01", "-."}) {
    EXPECT_TRUE(ParseTraceparent(absl::StrCat("cc", known, more)).has_value()) << more;
  }
  EXPECT_FALSE(ParseTraceparent(absl::StrCat("cc", known, ".what-the-future-will-not-be-like")).has_value());
  EXPECT_FALSE(ParseTraceparent(absl::StrCat("cc", known, "0")).has_value());
}

TEST(Traceparent, AnythingElseIsNone) {
  for (const char* header : {"", "00", "00-", "foo",
                             // Version 00 has nothing behind its flags.
                             "00-12345678901234567890123456789012-1234567890123456-01-",
                             "00-12345678901234567890123456789012-1234567890123456-01.",
                             "00-12345678901234567890123456789012-1234567890123456-01-what-the-future-will-be-like",
                             // No version ff, and two digits.
                             "ff-12345678901234567890123456789012-1234567890123456-01",
                             ".0-12345678901234567890123456789012-1234567890123456-01",
                             "0.-12345678901234567890123456789012-1234567890123456-01",
                             "000-12345678901234567890123456789012-1234567890123456-01",
                             "0-12345678901234567890123456789012-1234567890123456-01",
                             "FF-12345678901234567890123456789012-1234567890123456-01",
                             "CC-12345678901234567890123456789012-1234567890123456-01",
                             // Ids that are zero, too short, too long or no lower-case hex.
                             "00-00000000000000000000000000000000-1234567890123456-01",
                             "00-12345678901234567890123456789012-0000000000000000-01",
                             "00-.2345678901234567890123456789012-1234567890123456-01",
                             "00-1234567890123456789012345678901.-1234567890123456-01",
                             "00-123456789012345678901234567890123-1234567890123456-01",
                             "00-1234567890123456789012345678901-1234567890123456-01",
                             "00-12345678901234567890123456789012-.234567890123456-01",
                             "00-12345678901234567890123456789012-123456789012345.-01",
                             "00-12345678901234567890123456789012-12345678901234567-01",
                             "00-12345678901234567890123456789012-123456789012345-01",
                             "00-ABCDEF78901234567890123456789012-1234567890123456-01",
                             "00-12345678901234567890123456789012-ABCDEF7890123456-01",
                             // Flags that are no two digits.
                             "00-12345678901234567890123456789012-1234567890123456-.0",
                             "00-12345678901234567890123456789012-1234567890123456-0.",
                             "00-12345678901234567890123456789012-1234567890123456-001",
                             "00-12345678901234567890123456789012-1234567890123456-1",
                             "00-12345678901234567890123456789012-1234567890123456-0A",
                             // Signs and spaces, which readers of numbers often take.
                             "00-+2345678901234567890123456789012-1234567890123456-01",
                             "00-12345678901234567890123456789012--234567890123456-01",
                             "00- 2345678901234567890123456789012-1234567890123456-01",
                             "00-0x345678901234567890123456789012-1234567890123456-01",
                             "00_12345678901234567890123456789012_1234567890123456_01"}) {
    EXPECT_FALSE(ParseTraceparent(header).has_value()) << header;
  }
}

TEST(Tracestate, IsNormalized) {
  for (const auto& [header, normal] : std::vector<std::pair<std::string, std::string>>{
           {"", ""},
           {"foo=1", "foo=1"},
           {"foo=1,bar=2", "foo=1,bar=2"},
           {"foo=1 \t , \t bar=2, \t baz=3", "foo=1,bar=2,baz=3"},
           {"foo=1,", "foo=1"},
           {",foo=1,,bar=2", "foo=1,bar=2"},
           {"foo=1,foo=2,bar=3", "foo=1,bar=3"},
           {"foo_-*/0=1,fw529a3039@dt=2,0t@v=3", "foo_-*/0=1,fw529a3039@dt=2,0t@v=3"},
           {"foo=of a kind; with !\"#$%&'()*+-./:<>?@[\\]^_`{|}~",
            "foo=of a kind; with !\"#$%&'()*+-./:<>?@[\\]^_`{|}~"},
           {std::string(256, 'z') + "=1", std::string(256, 'z') + "=1"},
           {std::string(241, 't') + "@" + std::string(14, 'v') + "=1",
            std::string(241, 't') + "@" + std::string(14, 'v') + "=1"},
           {"foo=" + std::string(256, 'v'), "foo=" + std::string(256, 'v')}}) {
    EXPECT_EQ(NormalizeTracestate(header), normal) << header;
  }
}

TEST(Tracestate, AListWithAMalformedMemberIsNotPassedOn) {
  for (const std::string& header : std::vector<std::string>{"foo",
                                                            "foo=",
                                                            "=1",
                                                            "foo=1,bar",
                                                            "foo =1",
                                                            "FOO=1",
                                                            "foo.bar=1",
                                                            "foo@=1,bar=2",
                                                            "@foo=1,bar=2",
                                                            "foo@@bar=1,bar=2",
                                                            "foo@bar@baz=1,bar=2",
                                                            "0foo=1",
                                                            "_foo=1",
                                                            "foo@0bar=1",
                                                            "foo=bar=baz",
                                                            "foo=b\x01r",
                                                            "foo=b\xC3\xA4r",
                                                            "foo=b\tr",
                                                            std::string(257, 'z') + "=1",
                                                            std::string(242, 't') + "@v=1",
                                                            "t@" + std::string(15, 'v') + "=1",
                                                            "foo=" + std::string(257, 'v')}) {
    EXPECT_EQ(NormalizeTracestate(header), "") << header;
  }
}

std::vector<std::string> NumberedMembers(int count) {
  std::vector<std::string> members;
  for (int i = 0; i < count; ++i) members.push_back(absl::StrCat("bar", i, "=", i));
  return members;
}

TEST(Tracestate, HasAtMost32Members) {
  const std::string most = absl::StrJoin(NumberedMembers(32), ",");
  EXPECT_EQ(NormalizeTracestate(most), most);
  EXPECT_EQ(NormalizeTracestate(absl::StrJoin(NumberedMembers(33), ",")), "");
}

TEST(Tracestate, IsCutTo512BytesLongMembersFirst) {
  const std::string member = "=" + std::string(98, 'v');  // 100 bytes with its key
  const std::string five = absl::StrCat("a", member, ",b", member, ",c", member, ",d", member, ",e", member);
  ASSERT_EQ(five.size(), 504u);
  EXPECT_EQ(NormalizeTracestate(five), five);
  EXPECT_EQ(NormalizeTracestate(absl::StrCat(five, ",f=12345")), absl::StrCat(five, ",f=12345")) << "512 bytes";
  EXPECT_EQ(NormalizeTracestate(absl::StrCat(five, ",f=123456")), five) << "513 bytes";
  const std::string long_member = "l=" + std::string(127, 'v');
  EXPECT_EQ(NormalizeTracestate(absl::StrCat(long_member, ",", five)), five);
  EXPECT_EQ(NormalizeTracestate(absl::StrCat(long_member, ",a", member)), absl::StrCat(long_member, ",a", member))
      << "a long member of a short list stays";
}

TEST(Baggage, IsNormalizedAndMalformedMembersAreLeftOut) {
  for (const auto& [header, normal] : std::vector<std::pair<std::string, std::string>>{
           {"", ""},
           {"userId=alice,serverNode=DF%2028", "userId=alice,serverNode=DF%2028"},
           {" userId =  Am%C3%A9lie , , isProduction=false;a;b = c ",
            "userId =  Am%C3%A9lie,isProduction=false;a;b = c"},
           {"a=", "a="},
           {"noValue,a=1", "a=1"},
           {"a=1,b=\"quoted\",c=3", "a=1,c=3"},
           {"a=two words,c=3", "c=3"},
           {"a=50%,b=%2,c=%zz,d=%41", "d=%41"},
           {"=1,(a)=1,a b=1,c=3", "c=3"},
           {"a=1;,b=2;x=\\,c=3;k=v=w", "c=3;k=v=w"},
           {"a=\xC3\xA4,b=\x01,c=3", "c=3"}}) {
    EXPECT_EQ(NormalizeBaggage(header), normal) << header;
  }
}

TEST(Baggage, HasAtMost64MembersAnd8192Bytes) {
  const std::string most = absl::StrJoin(NumberedMembers(64), ",");
  EXPECT_EQ(NormalizeBaggage(most), most);
  EXPECT_EQ(NormalizeBaggage(absl::StrJoin(NumberedMembers(65), ",")), most);
  const std::string full = "a=" + std::string(kMaxBaggageBytes - 2, 'v');
  EXPECT_EQ(NormalizeBaggage(full), full);
  EXPECT_EQ(NormalizeBaggage(full + "v"), "");
  EXPECT_EQ(NormalizeBaggage("b=1," + full + ",c=2"), "b=1,c=2") << "a member that does not fit makes room for others";
}

TEST(TraceContext, TakesWhatIsValidAndDropsTheRest) {
  const TraceContext context = ReadTraceContext(
      {.traceparent = {kTestTraceparent}, .tracestate = {"foo=1", "bar=2"}, .baggage = {"k=v", "l=w"}});
  EXPECT_EQ(context.parent, ParseTraceparent(kTestTraceparent));
  EXPECT_EQ(context.tracestate, "foo=1,bar=2");
  EXPECT_EQ(context.baggage, "k=v,l=w");

  const TraceContext bad_state = ReadTraceContext({.traceparent = {kTestTraceparent}, .tracestate = {"foo"}});
  EXPECT_TRUE(bad_state.parent.has_value()) << "a malformed tracestate does not touch traceparent";
  EXPECT_EQ(bad_state.tracestate, "");
}

TEST(TraceContext, WithoutAValidParentThereIsNoTracestate) {
  for (const auto& parents :
       std::vector<std::vector<std::string_view>>{{}, {"junk"}, {kTestTraceparent, kTestTraceparent}}) {
    const TraceContext context =
        ReadTraceContext({.traceparent = parents, .tracestate = {"foo=1"}, .baggage = {"k=v"}});
    EXPECT_FALSE(context.parent.has_value());
    EXPECT_EQ(context.tracestate, "");
    EXPECT_EQ(context.baggage, "k=v");
  }
}

TEST(TraceContext, SpacesAroundATraceparentBelongToTheHeader) {
  EXPECT_TRUE(ReadTraceContext({.traceparent = {absl::StrCat(" \t", kTestTraceparent, "\t ")}}).parent.has_value());
}

}  // namespace
}  // namespace baton::telemetry
