#include "router/generator.h"

#include <optional>
#include <utility>

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
  std::optional<KeptRequest> kept = KeptPartOf(request, model_);
  absl::StatusOr<PreparedJob> prepared = reader_.Read(std::move(request));
  if (!prepared.ok()) return WriteFailed(prepared.status(), *sink);
  // The deadline of a job that is kept is that of each call which follows it.
  if (kept.has_value()) prepared->job.deadline = kNever;
  auto job = std::make_shared<const JobSpec>(std::move(prepared->job));
  auto output = std::make_shared<JobOutput>(std::move(prepared->output));
  if (kept.has_value()) {
    kept->job = std::move(job);
    return PostFor(sink, [this, kept = *std::move(kept), output, sink, arrived](Dispatcher& dispatcher) {
      kept_.Generate(kept, std::move(*output), arrived, sink, dispatcher);
    });
  }
  PostFor(sink, [this, job, output, sink, arrived](Dispatcher& dispatcher) {
    auto listener = std::make_shared<GenerationListener>(GenerationCall{.job = job, .sink = sink, .arrived = arrived},
                                                         std::move(*output), clock_, dispatcher);
    const absl::Status status = loop_.Submit(job, listener);
    if (!status.ok()) return WriteFailed(status, *sink);
    listener->OnAccepted();
  });
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
    if (!kept_.Leave(id, ClientIsGone())) dispatcher.Cancel({.job = id}, ClientIsGone());
  });
}

}  // namespace baton::router
