#include "router/pending_output.h"

#include <iterator>

namespace baton::router {
namespace {

// The memory that a delta takes.
size_t BytesOf(const GenerationDelta& delta) {
  size_t bytes = delta.text.size() + delta.tokens.size() * sizeof(OutputToken);
  for (const OutputToken& token : delta.tokens) bytes += token.top.size() * sizeof(TopLogprob);
  return bytes;
}

}  // namespace

bool PendingOutput::Fits(const GenerationDelta& delta) const {
  return delta_.tokens.size() + delta.tokens.size() <= limits_.tokens && bytes_ + BytesOf(delta) <= limits_.bytes;
}

void PendingOutput::Append(GenerationDelta delta) {
  bytes_ += BytesOf(delta);
  if (empty()) {
    delta_ = std::move(delta);
    return;
  }
  delta_.text += delta.text;
  delta_.has_logprobs |= delta.has_logprobs;
  std::move(delta.tokens.begin(), delta.tokens.end(), std::back_inserter(delta_.tokens));
}

GenerationDelta PendingOutput::Take() {
  bytes_ = 0;
  return std::exchange(delta_, {});
}

}  // namespace baton::router
