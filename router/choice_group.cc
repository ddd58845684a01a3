#include "router/choice_group.h"

#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace baton::router {

class ChoiceGroup::ChoiceSink final : public GenerationSink {
 public:
  ChoiceSink(std::shared_ptr<ChoiceGroup> group, int32_t choice) : group_(std::move(group)), choice_(choice) {}

  bool Write(GenerationEvent event) override { return group_->Write(choice_, std::move(event)); }
  bool HasRoom(const GenerationDelta& delta) const override { return group_->sink_->HasRoom(delta); }
  bool is_behind() const override { return group_->sink_->is_behind(); }
  bool cancelled() const override { return group_->sink_->cancelled(); }

 private:
  const std::shared_ptr<ChoiceGroup> group_;
  const int32_t choice_;
};

ChoiceGroup::ChoiceGroup(const std::vector<PreparedJob>& prompts, int32_t choices, std::shared_ptr<GenerationSink> sink,
                         Dispatcher& dispatcher)
    : id_(prompts.front().job.id),
      choices_of_prompt_(choices),
      sink_(std::move(sink)),
      dispatcher_(dispatcher),
      prompts_(prompts.size()),
      ends_(prompts.size() * static_cast<size_t>(choices)),
      left_(ends_.size()) {
  for (const PreparedJob& prompt : prompts) usage_.prompt_tokens += static_cast<int32_t>(prompt.job.prompt_tokens());
}

std::shared_ptr<GenerationSink> ChoiceGroup::SinkOf(int32_t choice) {
  return std::make_shared<ChoiceSink>(shared_from_this(), choice);
}

bool ChoiceGroup::Write(int32_t choice, GenerationEvent event) {
  if (failed_) return true;
  return std::visit([&](auto& e) { return Take(choice, std::move(e)); }, event);
}

bool ChoiceGroup::Take(int32_t choice, GenerationAccepted accepted) {
  accepted.prompt_tokens = usage_.prompt_tokens;
  return choice != 0 || sink_->Write(accepted);
}

bool ChoiceGroup::Take(int32_t choice, GenerationDelta delta) {
  delta.choice = choice;
  // A choice that follows has no output before the one that it follows.
  std::shared_ptr<const GenerationPrompt>& prompt = prompts_[static_cast<size_t>(choice / choices_of_prompt_)];
  if (delta.prompt != nullptr) prompt = delta.prompt;
  if (!delta.tokens.empty() && delta.tokens.front().index == 0) delta.prompt = prompt;
  return sink_->Write(std::move(delta));
}

bool ChoiceGroup::Take(int32_t choice, GenerationFinished finished) {
  const ChoiceEnd end = {.reason = finished.reason,
                         .stop_index = finished.stop_index,
                         .cached_prompt_tokens = finished.usage.cached_prompt_tokens};
  if (!sink_->Write(GenerationDelta{.choice = choice, .end = end})) return false;
  ends_[static_cast<size_t>(choice)] = end;
  usage_.output_tokens += finished.usage.output_tokens;
  // The other choices of a prompt find it in the cache because it was computed for them.
  if (choice % choices_of_prompt_ == 0) usage_.cached_prompt_tokens += finished.usage.cached_prompt_tokens;
  const GenerationTiming timing = finished.timing;
  if (choice == 0) first_ = std::move(finished);
  if (--left_ > 0) return true;
  GenerationFinished all = *std::move(first_);
  all.choices = std::move(ends_);
  all.usage = usage_;
  all.timing = timing;
  return sink_->Write(std::move(all));
}

bool ChoiceGroup::Take(int32_t choice, GenerationFailed failed) {
  failed_ = true;
  dispatcher_.CancelJob(id_, absl::CancelledError(absl::StrCat("choice ", choice, " of the request has failed")));
  return sink_->Write(std::move(failed));
}

}  // namespace baton::router
