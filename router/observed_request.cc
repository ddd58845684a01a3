#include "router/observed_request.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace baton::router {
namespace {

// Where content is recorded, at most this much of a prompt and of an output is.
constexpr size_t kMaxRecordedBytes = 64u << 10;

std::string TextOf(const Prompt& prompt) {
  if (const auto* text = std::get_if<TextPrompt>(&prompt)) return text->text.substr(0, kMaxRecordedBytes);
  std::string all;
  if (const auto* chat = std::get_if<ChatPrompt>(&prompt)) {
    for (const tokenizer::ChatMessage& message : chat->messages) {
      absl::StrAppend(&all, message.role, ": ", message.content, "\n");
      if (all.size() > kMaxRecordedBytes) break;
    }
  }
  return all.substr(0, kMaxRecordedBytes);
}

int64_t SumOf(const PhaseTimes& phases) {
  return phases.queue_ns + phases.admission_ns + phases.prefill_ns + phases.transfer_ns + phases.decode_ns;
}

}  // namespace

ObservedRequest::ObservedRequest(const RequestObservers& observers, std::shared_ptr<GenerationSink> sink,
                                 const JobId& id, RequestTrace trace)
    : observers_(observers), sink_(std::move(sink)) {
  record_.id = id;
  record_.trace = std::move(trace);
  record_.arrived = observers.clock.Now();
  record_.arrived_unix_ns = absl::GetCurrentTimeNanos();
}

void ObservedRequest::OnRead(const GenerationRequest& request) {
  record_.sampling = request.sampling;
  if (observers_.records_content) record_.prompt_text = TextOf(request.prompt);
}

bool ObservedRequest::Write(GenerationEvent event) {
  std::visit([this](const auto& e) { Note(e); }, event);
  return sink_->Write(std::move(event));
}

void ObservedRequest::Note(const GenerationAccepted& accepted) {
  follows_ = accepted.follows;
  record_.seed = accepted.seed;
  record_.prompt_tokens = accepted.prompt_tokens;
}

void ObservedRequest::Note(const GenerationDelta& delta) {
  if (follows_) return;
  if (observers_.records_content && record_.output_text.size() < kMaxRecordedBytes) record_.output_text += delta.text;
  if (delta.tokens.empty()) return;
  const TimeNs now = observers_.clock.Now();
  const auto index = static_cast<size_t>(delta.choice);
  if (choices_.size() <= index) choices_.resize(index + 1);
  Choice& choice = choices_[index];
  if (tokens_ == 0) {
    record_.ttft_ns = now - record_.arrived;
    for (RequestObserver* observer : observers_.observers) observer->OnFirstToken(record_.ttft_ns);
  }
  if (choice.last_token == 0) {
    choice.first_token = now;
  } else {
    for (RequestObserver* observer : observers_.observers) observer->OnNextToken(now - choice.last_token);
  }
  choice.last_token = now;
  tokens_ += static_cast<int32_t>(delta.tokens.size());
}

void ObservedRequest::Note(const GenerationFinished& finished) {
  record_.finish = finished.reason;
  NoteJob(finished.job);
}

void ObservedRequest::Note(const GenerationFailed& failed) {
  record_.status = failed.status;
  record_.outcome = OutcomeOf(failed.status);
  NoteJob(failed.job);
}

void ObservedRequest::NoteJob(const std::shared_ptr<const JobResult>& job) {
  record_.job = job;
  if (job == nullptr) return;
  record_.phases = job->phases;
  record_.prompt_tokens = job->prompt_tokens;
}

int64_t ObservedRequest::MeanItlNs() const {
  int64_t elapsed_ns = 0;
  int64_t gaps = tokens_;
  for (const Choice& choice : choices_) {
    elapsed_ns += choice.last_token - choice.first_token;
    gaps -= choice.last_token == 0 ? 0 : 1;
  }
  return gaps <= 0 ? 0 : elapsed_ns / gaps;
}

void ObservedRequest::OnDelivered(const absl::Status& delivery) {
  if (follows_) return;
  // A client that was cut shows in the request's own end as one that left.
  const bool well = record_.outcome == RequestOutcome::kOk || record_.outcome == RequestOutcome::kCancelled;
  if (!delivery.ok() && well) {
    record_.status = delivery;
    record_.outcome = OutcomeOf(delivery);
  }
  record_.output_tokens = tokens_;
  record_.mean_itl_ns = MeanItlNs();
  record_.total_ns = observers_.clock.Now() - record_.arrived;
  record_.network_ns = record_.total_ns - SumOf(record_.phases);
  for (RequestObserver* observer : observers_.observers) observer->OnRequestEnded(record_);
}

}  // namespace baton::router
