// Joins the choices of one request, of one prompt or of several: each is a job of its own to the dispatcher, and the
// client hears of them as of one request.
#ifndef BATON_ROUTER_CHOICE_GROUP_H_
#define BATON_ROUTER_CHOICE_GROUP_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/ids.h"
#include "router/dispatcher.h"
#include "router/generation.h"
#include "router/request_reader.h"

namespace baton::router {

// What the sinks of the choices hear, and what the client hears of it:
//
//   of a choice        | the client hears
//   -------------------+---------------------------------------------------------------------------------------------
//   GenerationAccepted | choice 0's, with the tokens of all prompts
//   GenerationDelta    | the same, with the choice's index; what the first choice of a prompt says of the prompt comes with
//                      | the first output of each
//   GenerationFinished | a delta with the choice's end; after that of the last one to end, GenerationFinished of all
//   GenerationFailed   | the first one, and nothing after it: the other choices are cancelled
//
// Used by the loop alone.
class ChoiceGroup : public std::enable_shared_from_this<ChoiceGroup> {
 public:
  // `prompts` are the first choices of at least one prompt, each of which has `choices`. `dispatcher` outlives the
  // group.
  ChoiceGroup(const std::vector<PreparedJob>& prompts, int32_t choices, std::shared_ptr<GenerationSink> sink,
              Dispatcher& dispatcher);

  // What the listener of the choice writes to. Keeps the group.
  std::shared_ptr<GenerationSink> SinkOf(int32_t choice);

 private:
  class ChoiceSink;

  bool Write(int32_t choice, GenerationEvent event);
  bool Take(int32_t choice, GenerationAccepted accepted);
  bool Take(int32_t choice, GenerationDelta delta);
  bool Take(int32_t choice, GenerationFinished finished);
  bool Take(int32_t choice, GenerationFailed failed);

  const JobId id_;
  const int32_t choices_of_prompt_;
  const std::shared_ptr<GenerationSink> sink_;
  Dispatcher& dispatcher_;
  // What the first choice of each prompt has said of it.
  std::vector<std::shared_ptr<const GenerationPrompt>> prompts_;
  std::vector<ChoiceEnd> ends_;
  // Choices that have not ended.
  size_t left_;
  // Prompt and output tokens of all; cached ones of those that have ended.
  GenerationUsage usage_;
  // Choice 0's end.
  std::optional<GenerationFinished> first_;
  bool failed_ = false;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_CHOICE_GROUP_H_
