// Log-probabilities of prompts. The client gets all of them with output 0, so an attempt that comes to nothing before
// that has shown nothing of them, and the next one begins anew.
//
// The worker that computes the prompt says them before its first output. D's outputs travel on another stream and may
// overtake them: these are held back until all are there.
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "router/dispatcher_impl.h"

namespace baton::router {

bool Dispatcher::Impl::AwaitsPrompt(const DispatchJob& job) {
  return job.outputs.empty() && static_cast<int64_t>(job.prompt.size()) < job.spec->prompt_logprobs();
}

void Dispatcher::Impl::OnPrompt(DispatchJob& job, Side side, const WorkerUpdate& update) {
  if (job.state == JobState::kFinishing) return;
  const int64_t due = static_cast<int64_t>(job.prompt.size()) + 1;
  const int64_t end = update.first_prompt + static_cast<int64_t>(update.prompt.size());
  if (side != job.prompt_side() || !AwaitsPrompt(job) || update.first_prompt != due ||
      end > job.spec->prompt_logprobs() + 1) {
    return End(job,
               absl::InternalError(absl::StrCat("log-probabilities of the prompt's tokens from ", update.first_prompt,
                                                " to ", end, " came where those from ", due, " on were due")));
  }
  job.prompt.reserve(static_cast<size_t>(job.spec->prompt_logprobs()));
  job.prompt.insert(job.prompt.end(), update.prompt.begin(), update.prompt.end());
  if (!AwaitsPrompt(job)) TakeHeldBack(job.key());
}

void Dispatcher::Impl::HoldBack(DispatchJob& job, Side side, const OutputToken& token) {
  if (side == job.prompt_side()) {
    return End(job,
               absl::InternalError(absl::StrCat("output token ", token.index, " came after ", job.prompt.size(), " of ",
                                                job.spec->prompt_logprobs(), " log-probabilities of the prompt")));
  }
  const bool is_over = !job.held_back.empty() && job.held_back.back().is_last();
  if (is_over || token.index != static_cast<int32_t>(job.held_back.size()) ||
      token.index >= job.spec->sampling.max_tokens) {
    return End(job, absl::InternalError(
                        absl::StrCat("output token ", token.index, " came where ", job.held_back.size(), " was due")));
  }
  job.held_back.push_back(token);
}

// By its key, because each output may end the job.
void Dispatcher::Impl::TakeHeldBack(const JobKey& key) {
  for (const OutputToken& token : std::exchange(FindJob(key)->held_back, {})) {
    DispatchJob* const job = FindJob(key);
    if (job == nullptr) return;
    // That they come at once says nothing of how fast D is.
    job->timed_output = -1;
    OnToken(*job, Side::kDecode, token);
  }
}

std::shared_ptr<const std::vector<PromptLogprob>> Dispatcher::Impl::TakePrompt(DispatchJob& job,
                                                                               const OutputToken& token) {
  if (token.index > 0 || job.spec->sampling.prompt_logprobs < 0) return nullptr;
  return std::make_shared<const std::vector<PromptLogprob>>(std::move(job.prompt));
}

}  // namespace baton::router
