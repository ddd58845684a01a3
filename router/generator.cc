#include "router/generator.h"

#include <optional>
#include <utility>

#include "router/choice_group.h"
#include "router/error_details.h"
#include "router/generation_listener.h"
#include "router/refusal_reason.h"

namespace baton::router {
namespace {

absl::Status ClientIsGone() { return absl::CancelledError("the client cancelled or is gone"); }

// All but the job, of a request whose job is to be kept.
std::optional<KeptRequest> KeptPartOf(const GenerationRequest& request, const ServedModel& model) {
  if (!request.resumable && request.idempotency_key.empty()) return std::nullopt;
  return KeptRequest{.job = nullptr,
                     .model = model.name,
                     .stop = request.stop,
                     .owner = request.authenticated_tenant,
                     .idempotency_key = request.idempotency_key,
                     .body = request.body};
}

// Choice `number` of the prompt whose first choice this is.
std::shared_ptr<const JobSpec> ChoiceOf(const JobSpec& first, int32_t number) {
  auto job = std::make_shared<JobSpec>(first);
  if (number > 0) job->follows = first.choice;
  job->choice += static_cast<uint32_t>(number);
  job->sampling.seed += static_cast<uint64_t>(number);
  // The client gets one, that of choice 0.
  if (job->choice > 0) job->want_kv_digest = false;
  // The group shows those of the first one with each, so that the others may find the prompt in the cache.
  if (number > 0) job->sampling.prompt_logprobs = -1;
  return job;
}

}  // namespace

void Generator::PostFor(const std::shared_ptr<GenerationSink>& sink, RouterLoop::Task task) {
  const bool posted = loop_.Post([sink, task = std::move(task)](Dispatcher& dispatcher) {
    // A Cancel that came before this task found no job, so the sink has the last word.
    if (sink->cancelled()) return WriteFailed(ClientIsGone(), *sink);
    task(dispatcher);
  });
  if (posted) return;
  WriteFailed(
      WithReason(absl::ResourceExhaustedError("the router is overloaded: try again"), RefusalReason::kQueueFull),
      *sink);
}

void Generator::Generate(GenerationRequest request, std::shared_ptr<GenerationSink> sink) {
  const TimeNs arrived = request.arrived;
  const int32_t choices = request.choices;
  const bool want_prompt_tokens = request.want_prompt_tokens;
  std::optional<KeptRequest> kept = KeptPartOf(request, model_);
  absl::StatusOr<std::vector<PreparedJob>> prepared = reader_.ReadAll(std::move(request));
  if (!prepared.ok()) return WriteFailed(prepared.status(), *sink);
  // A task is copied by the loop's queue.
  auto prompts = std::make_shared<std::vector<PreparedJob>>(*std::move(prepared));
  PreparedJob& first = prompts->front();
  if (kept.has_value()) {
    // The deadline of a job that is kept is that of each call which follows it.
    first.job.deadline = kNever;
    kept->job = std::make_shared<const JobSpec>(std::move(first.job));
    return PostFor(sink, [this, kept = *std::move(kept), prompts, sink, arrived](Dispatcher& dispatcher) {
      kept_.Generate(kept, std::move(prompts->front().output), arrived, sink, dispatcher);
    });
  }
  if (choices > 1 || prompts->size() > 1) {
    const GenerationCall call = {
        .job = nullptr, .sink = sink, .arrived = arrived, .want_prompt_tokens = want_prompt_tokens};
    return PostFor(sink, [this, prompts, choices, call](Dispatcher& dispatcher) {
      SubmitChoices(*prompts, choices, call, dispatcher);
    });
  }
  const GenerationCall call = {.job = std::make_shared<const JobSpec>(std::move(first.job)),
                               .sink = sink,
                               .arrived = arrived,
                               .echo = std::move(first.echo),
                               .want_prompt_tokens = want_prompt_tokens};
  PostFor(sink, [this, call, prompts](Dispatcher& dispatcher) {
    auto listener = std::make_shared<GenerationListener>(call, std::move(prompts->front().output), clock_, dispatcher);
    const absl::Status status = loop_.Submit(call.job, listener);
    if (!status.ok()) return WriteFailed(status, *call.sink);
    listener->OnAccepted();
  });
}

void Generator::SubmitChoices(const std::vector<PreparedJob>& prompts, int32_t choices, GenerationCall call,
                              Dispatcher& dispatcher) {
  auto group = std::make_shared<ChoiceGroup>(prompts, choices, std::move(call.sink), dispatcher);
  const bool want_prompt_tokens = call.want_prompt_tokens;
  std::shared_ptr<GenerationListener> first;
  for (const PreparedJob& prompt : prompts) {
    for (int32_t i = 0; i < choices; ++i) {
      call.job = ChoiceOf(prompt.job, i);
      call.sink = group->SinkOf(static_cast<int32_t>(call.job->choice));
      // The group shows with each choice what the first one says of the prompt.
      call.echo = i == 0 ? prompt.echo : std::nullopt;
      call.want_prompt_tokens = want_prompt_tokens && i == 0;
      auto listener = std::make_shared<GenerationListener>(call, prompt.output, clock_, dispatcher);
      const absl::Status status = loop_.Submit(call.job, listener);
      // The group then cancels the choices before this one, of which the client has heard nothing.
      if (!status.ok()) return WriteFailed(status, *call.sink);
      if (first == nullptr) first = std::move(listener);
    }
  }
  first->OnAccepted();
}

void Generator::Resume(ResumeRequest request, std::shared_ptr<GenerationSink> sink) {
  PostFor(sink, [this, request = std::move(request), sink](Dispatcher& dispatcher) {
    kept_.Resume(request, sink, dispatcher);
  });
}

void Generator::Recover(std::vector<JournaledJob> jobs) {
  // A task is copied by the loop's queue.
  auto shared = std::make_shared<std::vector<JournaledJob>>(std::move(jobs));
  loop_.PostWhenRoom([this, shared](Dispatcher& dispatcher) { kept_.Recover(std::move(*shared), dispatcher); });
}

void Generator::Cancel(const JobId& id) {
  loop_.PostWhenRoom([this, id](Dispatcher& dispatcher) {
    if (!kept_.Leave(id, ClientIsGone())) dispatcher.CancelJob(id, ClientIsGone());
  });
}

}  // namespace baton::router
