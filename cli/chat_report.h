// The line below an answer: how many tokens, how fast, and where the time went.
#ifndef BATON_CLI_CHAT_REPORT_H_
#define BATON_CLI_CHAT_REPORT_H_

#include <cstdint>
#include <string>

#include "baton/v1/generation.pb.h"

namespace baton::cli {

// What the client saw of an answer. Times are milliseconds since the question was sent.
struct AnswerTiming {
  int64_t tokens = 0;
  // When the first and the last tokens came.
  double first_ms = 0;
  double last_ms = 0;
  // How many tokens came with the first message, so that the rate leaves the wait for them out.
  int64_t first_tokens = 0;
};

// Without a newline. Time in the queue includes admission, so that the phases add up to the total. An answer that was
// stopped has no `finished`: it gets the first half of the line.
std::string AnswerReport(const AnswerTiming& timing, const v1::Finished* finished);

}  // namespace baton::cli

#endif  // BATON_CLI_CHAT_REPORT_H_
