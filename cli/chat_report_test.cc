// The line below an answer.
#include "cli/chat_report.h"

#include "gtest/gtest.h"

namespace baton::cli {
namespace {

v1::Finished Finished() {
  v1::Finished finished;
  finished.set_reason(v1::FINISH_REASON_STOP);
  finished.mutable_usage()->set_prompt_tokens(57);
  v1::PhaseTimes& timing = *finished.mutable_timing();
  timing.set_queue_ms(1);
  timing.set_admission_ms(2);
  timing.set_prefill_ms(41);
  timing.set_transfer_ms(4);
  timing.set_decode_ms(750);
  timing.set_network_ms(14);
  timing.set_total_ms(812);
  return finished;
}

TEST(ChatReport, SaysTokensRateFirstTokenAndPhases) {
  const v1::Finished finished = Finished();
  EXPECT_EQ(AnswerReport({.tokens = 24, .first_ms = 48, .last_ms = 798, .first_tokens = 1}, &finished),
            "24 tokens, 30.7 tokens/s, first after 48 ms; prompt 57; "
            "812 ms = queue 3 + prefill 41 + transfer 4 + decode 750 + network 14");
}

TEST(ChatReport, TellsWhatTheCacheHadAndThatAnAnswerWasCut) {
  v1::Finished finished = Finished();
  finished.set_reason(v1::FINISH_REASON_LENGTH);
  finished.mutable_usage()->set_cached_prompt_tokens(48);
  const std::string text = AnswerReport({.tokens = 1, .first_ms = 48, .last_ms = 48, .first_tokens = 1}, &finished);
  EXPECT_TRUE(text.starts_with("1 token, first after 48 ms; prompt 57, 48 cached; 812 ms = ")) << text;
  EXPECT_TRUE(text.ends_with("; cut by max_tokens or the context")) << text;
}

TEST(ChatReport, AStoppedAnswerHasNoPhases) {
  EXPECT_EQ(AnswerReport({.tokens = 3, .first_ms = 50, .last_ms = 150, .first_tokens = 1}, nullptr),
            "3 tokens, 20.0 tokens/s, first after 50 ms");
  EXPECT_EQ(AnswerReport({}, nullptr), "0 tokens");
}

}  // namespace
}  // namespace baton::cli
