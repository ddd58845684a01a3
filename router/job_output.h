// Turns one job's tokens into the text that its client reads: whole characters, up to the first stop string.
#ifndef BATON_ROUTER_JOB_OUTPUT_H_
#define BATON_ROUTER_JOB_OUTPUT_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tokenizer/stop_matcher.h"
#include "tokenizer/stream_detokenizer.h"
#include "tokenizer/tokenizer.h"

namespace baton::router {

// Used by one thread at a time.
class JobOutput {
 public:
  // INVALID_ARGUMENT for stop strings beyond their limits. The tokenizer outlives the JobOutput.
  static absl::StatusOr<JobOutput> Create(const tokenizer::Tokenizer& tokenizer, const std::vector<std::string>& stop);

  // The text that became certain with this token; empty once stopped. The one error is an id outside the vocabulary.
  absl::StatusOr<std::string> Push(int32_t token);
  // The text that was held back. Call it once, after the last token.
  std::string Flush();
  // A stop string has ended the text, so later tokens are not part of the output.
  bool stopped() const { return stop_index_.has_value(); }
  // The index of that string in Create's list.
  std::optional<int> stop_index() const { return stop_index_; }

 private:
  JobOutput(const tokenizer::Tokenizer& tokenizer, tokenizer::StopMatcher matcher)
      : detokenizer_(tokenizer), matcher_(std::move(matcher)) {}
  std::string Match(const std::string& text);

  tokenizer::StreamDetokenizer detokenizer_;
  tokenizer::StopMatcher matcher_;
  std::optional<int> stop_index_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_JOB_OUTPUT_H_
