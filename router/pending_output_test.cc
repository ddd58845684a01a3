#include "router/pending_output.h"

#include <string>

#include "gtest/gtest.h"

namespace baton::router {
namespace {

TEST(PendingOutput, AWholeAnswerMayTakeItsBoundInMemoryAndNotAByteMore) {
  PendingOutput pending(kWholeAnswerLimits);
  GenerationDelta delta;
  delta.text.assign(kMaxWholeAnswerBytes, 'x');
  EXPECT_TRUE(pending.Fits(delta));
  delta.text.push_back('x');
  EXPECT_FALSE(pending.Fits(delta));
  delta.text.resize(kMaxWholeAnswerBytes - 1);
  pending.Append(delta);
  delta.text = "x";
  EXPECT_TRUE(pending.Fits(delta));
  delta.text = "xx";
  EXPECT_FALSE(pending.Fits(delta));
}

}  // namespace
}  // namespace baton::router
