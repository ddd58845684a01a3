#include "router/generation_listener.h"

#include <string>
#include <utility>

#include "common/check.h"
#include "common/test_delay.h"
#include "router/error_details.h"
#include "router/refusal_reason.h"

namespace baton::router {

void WriteFailed(const absl::Status& status, GenerationSink& sink, std::shared_ptr<const JobResult> job) {
  BATON_CHECK(sink.Write(GenerationFailed{WithRetryAfter(status), std::move(job)})) << "a sink has room for the end";
}

GenerationFinished MakeFinished(const JobSpec& job, const JobResult& result, const JobOutput& output, TimeNs arrived,
                                TimeNs now) {
  // A stop string in the flushed tail ends the text like any other.
  const bool stop = result.finish == FinishReason::kStop || output.stopped();
  const PhaseTimes& phases = result.phases;
  const int64_t total_ns = now - arrived;
  return {.id = job.id,
          .seed = job.sampling.seed,
          .reason = stop ? FinishReason::kStop : FinishReason::kLength,
          .stop_index = output.stop_index(),
          .usage = {.prompt_tokens = result.prompt_tokens,
                    .output_tokens = result.output_tokens,
                    .cached_prompt_tokens = result.cached_tokens},
          .kv_digest = result.kv_digest,
          .other_numerics_from = result.other_numerics_from,
          .timing = {.phases = phases,
                     .network_ns = total_ns - phases.queue_ns - phases.admission_ns - phases.prefill_ns -
                                   phases.transfer_ns - phases.decode_ns,
                     .total_ns = total_ns},
          .decode = result.decode,
          .job = std::make_shared<const JobResult>(result)};
}

void GenerationListener::OnAccepted() {
  const JobSpec& job = *call_.job;
  Write(GenerationAccepted{
      .id = job.id, .seed = job.sampling.seed, .prompt_tokens = static_cast<int32_t>(job.prompt_tokens())});
}

void GenerationListener::OnPrompt(std::shared_ptr<const std::vector<PromptLogprob>> logprobs) {
  prompt_logprobs_ = std::move(logprobs);
}

std::shared_ptr<const GenerationPrompt> GenerationListener::TakePrompt() {
  if (prompt_logprobs_ == nullptr && !call_.echo.has_value() && !call_.want_prompt_tokens) return nullptr;
  return std::make_shared<const GenerationPrompt>(
      GenerationPrompt{.text = call_.echo, .tokens = call_.job->prompt, .logprobs = std::move(prompt_logprobs_)});
}

void GenerationListener::OnToken(const OutputToken& token) {
  if (cut_ || output_.stopped()) return;
  absl::StatusOr<std::string> text = output_.Push(token.token);
  if (!text.ok()) return dispatcher_.Cancel(call_.job->key(), absl::InternalError(text.status().message()));
  Write(GenerationDelta{.text = *std::move(text),
                        .tokens = {token},
                        .has_logprobs = call_.job->sampling.logprobs >= 0,
                        .prompt = token.index == 0 ? TakePrompt() : nullptr});
  if (output_.stopped() && !cut_) dispatcher_.Cancel(call_.job->key(), absl::OkStatus());
}

void GenerationListener::OnEnd(const JobResult& result) {
  TestDelay("finish");
  if (!result.status.ok()) return WriteFailed(result.status, *call_.sink, std::make_shared<const JobResult>(result));
  std::string text = output_.Flush();
  const GenerationFinished finished = MakeFinished(*call_.job, result, output_, call_.arrived, clock_.Now());
  if (cut_ || (!text.empty() && !call_.sink->Write(GenerationDelta{.text = std::move(text)})) ||
      !call_.sink->Write(finished)) {
    WriteFailed(SlowReader(), *call_.sink, finished.job);
  }
}

void GenerationListener::Write(GenerationEvent event) {
  if (cut_ || call_.sink->Write(std::move(event))) return;
  cut_ = true;
  // OnEnd tells the client.
  dispatcher_.Cancel(call_.job->key(), SlowReader());
}

}  // namespace baton::router
