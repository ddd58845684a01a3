#include "router/job_output.h"

#include <utility>

#include "common/status.h"

namespace baton::router {

absl::StatusOr<JobOutput> JobOutput::Create(const tokenizer::Tokenizer& tokenizer,
                                            const std::vector<std::string>& stop) {
  BATON_ASSIGN_OR_RETURN(tokenizer::StopMatcher matcher, tokenizer::StopMatcher::Create(stop));
  return JobOutput(tokenizer, std::move(matcher));
}

absl::StatusOr<std::string> JobOutput::Push(int32_t token) {
  if (stopped()) return std::string();
  BATON_ASSIGN_OR_RETURN(const std::string text, detokenizer_.Push(token));
  return Match(text);
}

std::string JobOutput::Flush() {
  if (stopped()) return std::string();
  std::string text = Match(detokenizer_.Flush());
  if (!stopped()) text += matcher_.Flush();
  return text;
}

std::string JobOutput::Match(const std::string& text) {
  tokenizer::StopMatcher::Output output = matcher_.Push(text);
  if (output.stopped) stop_index_ = output.stop_index;
  return std::move(output.text);
}

}  // namespace baton::router
