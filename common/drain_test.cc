#include "common/drain.h"

#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

ChoiceKey Request(uint64_t number) { return {.job = {.high = 0, .low = number}}; }

TEST(Drain, TheErrorOfACutRequestNamesItAndTheTimeOut) {
  const absl::Status status = CutByDrain(Request(0xab), 25'000);
  EXPECT_EQ(status, absl::UnavailableError("request 000000000000000000000000000000ab did not end within the drain "
                                           "time-out of 25000 ms and was cut: send it again"));
}

TEST(Drain, TheLogSaysHowManyRequestsWereCutAndWhich) {
  EXPECT_EQ(DescribeCut({Request(1)}, 200),
            "the drain time-out of 200 ms is over: cut 1 request: 00000000000000000000000000000001");
  EXPECT_EQ(DescribeCut({Request(1), {.job = {.high = 0, .low = 2}, .choice = 3}}, 200),
            "the drain time-out of 200 ms is over: cut 2 requests: 00000000000000000000000000000001, "
            "00000000000000000000000000000002:3");
}

TEST(Drain, TheLogNamesABoundedNumberOfRequests) {
  std::vector<ChoiceKey> cut;
  while (cut.size() < kMaxNamedRequests) cut.push_back(Request(cut.size()));
  EXPECT_TRUE(absl::EndsWith(DescribeCut(cut, 1), Request(kMaxNamedRequests - 1).ToString()));
  cut.push_back(Request(0xff));
  cut.push_back(Request(0xff));
  const std::string text = DescribeCut(cut, 1);
  EXPECT_TRUE(absl::StrContains(text, "cut 18 requests"));
  EXPECT_TRUE(absl::EndsWith(text, " and 2 more"));
  EXPECT_FALSE(absl::StrContains(text, Request(0xff).ToString()));
}

}  // namespace
}  // namespace baton
