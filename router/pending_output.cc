#include "router/pending_output.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "common/check.h"

namespace baton::router {
namespace {

// The memory that a delta takes.
size_t BytesOf(const GenerationDelta& delta) {
  size_t bytes = delta.text.size() + delta.tokens.size() * sizeof(OutputToken);
  for (const OutputToken& token : delta.tokens) {
    bytes += token.top.size() * sizeof(TopLogprob) + token.embedding.size() * sizeof(float);
  }
  return bytes;
}

size_t BytesOf(const std::shared_ptr<const GenerationPrompt>& prompt) {
  if (prompt == nullptr) return 0;
  size_t bytes = prompt->tokens.size() * sizeof(int32_t);
  if (prompt->text.has_value()) bytes += prompt->text->size();
  if (prompt->logprobs == nullptr) return bytes;
  for (const PromptLogprob& each : *prompt->logprobs) bytes += PromptLogprobBytes(1, each.top.size());
  return bytes;
}

}  // namespace

bool PendingOutput::Fits(const GenerationDelta& delta) const {
  return tokens_ + delta.tokens.size() <= limits_.tokens && bytes_ + BytesOf(delta) <= limits_.bytes;
}

void PendingOutput::Append(GenerationDelta delta) {
  bytes_ += BytesOf(delta);
  tokens_ += delta.tokens.size();
  prompt_bytes_ += BytesOf(delta.prompt);
  is_behind_ = is_behind_ || tokens_ > limits_.tokens / 2 || bytes_ > limits_.bytes / 2;
  const auto waiting = std::find_if(deltas_.begin(), deltas_.end(),
                                    [&](const GenerationDelta& each) { return each.choice == delta.choice; });
  if (waiting == deltas_.end()) {
    deltas_.push_back(std::move(delta));
    return;
  }
  if (delta.prompt != nullptr) waiting->prompt = std::move(delta.prompt);
  waiting->text += delta.text;
  waiting->has_logprobs |= delta.has_logprobs;
  waiting->end = delta.end;
  std::move(delta.tokens.begin(), delta.tokens.end(), std::back_inserter(waiting->tokens));
}

GenerationDelta PendingOutput::Take() {
  if (deltas_.empty()) return {};
  GenerationDelta delta = std::move(deltas_.front());
  deltas_.erase(deltas_.begin());
  bytes_ -= BytesOf(delta);
  tokens_ -= delta.tokens.size();
  prompt_bytes_ -= BytesOf(delta.prompt);
  is_behind_ = is_behind_ && (tokens_ > limits_.tokens / 4 || bytes_ > limits_.bytes / 4);
  return delta;
}

GenerationDelta PendingOutput::TakeOutput() {
  GenerationDelta delta = Take();
  const bool has_output = !delta.tokens.empty() || !delta.text.empty();
  if (has_output && delta.end.has_value()) {
    Append({.choice = delta.choice, .end = std::exchange(delta.end, std::nullopt)});
  }
  return delta;
}

std::vector<GenerationDelta> PendingOutput::TakeAll(size_t choices) {
  std::vector<GenerationDelta> ordered(std::max<size_t>(choices, 1));
  while (!empty()) {
    GenerationDelta delta = Take();
    const auto index = static_cast<size_t>(delta.choice);
    BATON_CHECK(index < ordered.size()) << index;
    ordered[index] = std::move(delta);
  }
  return ordered;
}

void PendingOutput::Clear() {
  deltas_.clear();
  tokens_ = 0;
  bytes_ = 0;
  prompt_bytes_ = 0;
  is_behind_ = false;
}

}  // namespace baton::router
