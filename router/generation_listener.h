// Follows one request on the router's loop: writes the job's tokens and its end as events to the client's sink.
#ifndef BATON_ROUTER_GENERATION_LISTENER_H_
#define BATON_ROUTER_GENERATION_LISTENER_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "router/generation.h"
#include "router/job_output.h"
#include "router/router_loop.h"

namespace baton::router {

struct GenerationCall {
  std::shared_ptr<const JobSpec> job;
  std::shared_ptr<GenerationSink> sink;
  // When the request reached its adapter.
  TimeNs arrived = 0;
  // The prompt's text, where the answer has it.
  std::optional<std::string> echo = std::nullopt;
  // The answer has the prompt's tokens.
  bool want_prompt_tokens = false;
};

// Writes GenerationFailed with WithRetryAfter(status). `job` is what the dispatcher says of it, if it had the job.
void WriteFailed(const absl::Status& status, GenerationSink& sink, std::shared_ptr<const JobResult> job = nullptr);

// The end of a job that ended well. `output` has seen all of it, and `arrived` is when its request did.
GenerationFinished MakeFinished(const JobSpec& job, const JobResult& result, const JobOutput& output, TimeNs arrived,
                                TimeNs now);

// Used by the loop alone.
class GenerationListener final : public JobListener {
 public:
  // `clock` and `dispatcher` outlive it.
  GenerationListener(GenerationCall call, JobOutput output, const Clock& clock, Dispatcher& dispatcher)
      : call_(std::move(call)), output_(std::move(output)), clock_(clock), dispatcher_(dispatcher) {}

  // Before any token.
  void OnAccepted();
  void OnPrompt(std::shared_ptr<const std::vector<PromptLogprob>> logprobs) override;
  void OnToken(const OutputToken& token) override;
  void OnEnd(const JobResult& result) override;
  bool is_behind() const override { return call_.sink->is_behind(); }

 private:
  // What the first delta says of the prompt; null: nothing.
  std::shared_ptr<const GenerationPrompt> TakePrompt();
  // Cancels the job when the client does not read.
  void Write(GenerationEvent event);

  const GenerationCall call_;
  JobOutput output_;
  std::shared_ptr<const std::vector<PromptLogprob>> prompt_logprobs_;
  const Clock& clock_;
  Dispatcher& dispatcher_;
  // The client does not read: the sink had no room.
  bool cut_ = false;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_GENERATION_LISTENER_H_
