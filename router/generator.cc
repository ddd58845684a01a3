#include "router/generator.h"

#include <utility>

#include "router/error_details.h"
#include "router/generation_listener.h"
#include "router/refusal_reason.h"

namespace baton::router {
namespace {

absl::Status ClientIsGone() { return absl::CancelledError("the client cancelled or is gone"); }

}  // namespace

void Generator::Generate(GenerationRequest request, std::shared_ptr<GenerationSink> sink) {
  const TimeNs arrived = request.arrived;
  absl::StatusOr<PreparedJob> prepared = reader_.Read(std::move(request));
  if (!prepared.ok()) return WriteFailed(prepared.status(), *sink);
  auto job = std::make_shared<const JobSpec>(std::move(prepared->job));
  auto output = std::make_shared<JobOutput>(std::move(prepared->output));
  const bool posted = loop_.Post([this, job, output, sink, arrived](Dispatcher& dispatcher) {
    // A Cancel that came before this task found no job, so the sink has the last word.
    if (sink->cancelled()) return WriteFailed(ClientIsGone(), *sink);
    auto listener = std::make_shared<GenerationListener>(GenerationCall{.job = job, .sink = sink, .arrived = arrived},
                                                         std::move(*output), clock_, dispatcher);
    const absl::Status status = loop_.Submit(job, listener);
    if (!status.ok()) return WriteFailed(status, *sink);
    listener->OnAccepted();
  });
  if (posted) return;
  WriteFailed(
      WithReason(absl::ResourceExhaustedError("the router is overloaded: try again"), RefusalReason::kQueueFull),
      *sink);
}

void Generator::Cancel(const JobId& id) {
  loop_.PostWhenRoom([id](Dispatcher& dispatcher) { dispatcher.Cancel({.job = id}, ClientIsGone()); });
}

}  // namespace baton::router
