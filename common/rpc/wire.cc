#include "common/rpc/wire.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/limits.h"
#include "common/status.h"

namespace baton::rpc {
namespace pb = internal::v1;

grpc::Status ToGrpc(const absl::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
}

absl::Status FromGrpc(const grpc::Status& status) {
  return {static_cast<absl::StatusCode>(status.error_code()), status.error_message()};
}

void ToProto(const JobKey& key, pb::JobKey* proto) {
  proto->set_job(key.job.ToHex());
  proto->set_attempt(key.attempt);
  proto->set_choice(key.choice);
}

absl::StatusOr<JobKey> FromProto(const pb::JobKey& proto) {
  BATON_ASSIGN_OR_RETURN(const Id128 job, Id128::FromHex(proto.job()));
  return JobKey{.job = job, .attempt = proto.attempt(), .choice = proto.choice()};
}

namespace {

void ToProto(const SamplingParams& params, pb::Sampling* proto) {
  proto->set_temperature(params.temperature);
  proto->set_top_k(params.top_k);
  proto->set_top_p(params.top_p);
  proto->set_min_p(params.min_p);
  proto->set_repetition_penalty(params.repetition_penalty);
  proto->set_frequency_penalty(params.frequency_penalty);
  proto->set_presence_penalty(params.presence_penalty);
  proto->set_seed(params.seed);
  proto->set_max_tokens(params.max_tokens);
  proto->set_min_tokens(params.min_tokens);
  proto->set_ignore_eos(params.ignore_eos);
  *proto->mutable_stop_token_ids() = {params.stop_token_ids.begin(), params.stop_token_ids.end()};
  proto->set_logprobs(params.logprobs);
}

SamplingParams FromProto(const pb::Sampling& proto) {
  return {.temperature = proto.temperature(),
          .top_k = proto.top_k(),
          .top_p = proto.top_p(),
          .min_p = proto.min_p(),
          .repetition_penalty = proto.repetition_penalty(),
          .frequency_penalty = proto.frequency_penalty(),
          .presence_penalty = proto.presence_penalty(),
          .seed = proto.seed(),
          .max_tokens = proto.max_tokens(),
          .min_tokens = proto.min_tokens(),
          .ignore_eos = proto.ignore_eos(),
          .stop_token_ids = {proto.stop_token_ids().begin(), proto.stop_token_ids().end()},
          .logprobs = proto.logprobs()};
}

}  // namespace

void ToProto(const WorkerJob& job, TimeNs now, pb::JobParams* proto) {
  ToProto(job.key, proto->mutable_key());
  *proto->mutable_prompt() = {job.prompt.begin(), job.prompt.end()};
  ToProto(job.sampling, proto->mutable_sampling());
  proto->set_tenant(job.tenant);
  if (job.deadline != kNever) proto->set_timeout_ms(std::max<int64_t>(1, (job.deadline - now) / kNsPerMs));
  proto->set_want_kv_digest(job.want_kv_digest);
}

absl::StatusOr<WorkerJob> FromProto(const pb::JobParams& proto, TimeNs now) {
  // The longest deadline that a worker accepts: a week.
  constexpr int64_t kMaxTimeoutMs = int64_t{7} * 24 * 3600 * 1000;
  WorkerJob job;
  BATON_ASSIGN_OR_RETURN(job.key, FromProto(proto.key()));
  job.prompt = {proto.prompt().begin(), proto.prompt().end()};
  job.sampling = FromProto(proto.sampling());
  job.tenant = proto.tenant();
  if (proto.timeout_ms() > 0) job.deadline = After(now, std::min(proto.timeout_ms(), kMaxTimeoutMs));
  job.want_kv_digest = proto.want_kv_digest();
  return job;
}

void ToProto(const OutputToken& token, pb::Token* proto) {
  proto->set_index(token.index);
  proto->set_id(token.token);
  proto->set_finish(static_cast<pb::Finish>(token.finish));
  proto->set_logprob(token.logprob);
  for (const TopLogprob& top : token.top) {
    proto->add_top_ids(top.token);
    proto->add_top_logprobs(top.logprob);
  }
}

absl::StatusOr<OutputToken> FromProto(const pb::Token& proto) {
  if (!pb::Finish_IsValid(proto.finish())) {
    return absl::InvalidArgumentError(
        absl::StrCat("output token ", proto.index(), " has the unknown finish ", static_cast<int>(proto.finish())));
  }
  const int top_count = proto.top_ids_size();
  if (top_count != proto.top_logprobs_size() || top_count > kMaxLogprobs) {
    return absl::InvalidArgumentError(absl::StrCat("output token ", proto.index(), " has ", top_count,
                                                   " likely tokens and ", proto.top_logprobs_size(),
                                                   " log-probabilities of them"));
  }
  OutputToken token{.index = proto.index(),
                    .token = proto.id(),
                    .finish = static_cast<FinishReason>(proto.finish()),
                    .logprob = proto.logprob()};
  token.top.reserve(static_cast<size_t>(top_count));
  for (int i = 0; i < top_count; ++i) token.top.push_back({proto.top_ids(i), proto.top_logprobs(i)});
  return token;
}

void ToProto(const WorkerUpdate& update, pb::WorkerUpdate* proto) {
  switch (update.kind) {
    case WorkerUpdate::Kind::kStarted:
      proto->mutable_started()->set_cached_tokens(update.cached_tokens);
      return;
    case WorkerUpdate::Kind::kKvCommitted:
      proto->mutable_kv_committed();
      return;
    case WorkerUpdate::Kind::kToken:
      return ToProto(update.token, proto->mutable_token());
    case WorkerUpdate::Kind::kFinished:
      break;
  }
  pb::JobFinished* finished = proto->mutable_finished();
  finished->set_kv_digest(update.kv_digest);
  finished->set_queue_ns(update.times.queue_ns);
  finished->set_compute_ns(update.times.compute_ns);
  finished->set_read_ns(update.times.read_ns);
  finished->set_digest_ns(update.times.digest_ns);
  finished->set_transfer_tail_ns(update.times.transfer_tail_ns);
  finished->set_transfer_bytes(update.times.transfer_bytes);
}

absl::StatusOr<WorkerUpdate> FromProto(const pb::WorkerUpdate& proto) {
  WorkerUpdate update;
  switch (proto.update_case()) {
    case pb::WorkerUpdate::kStarted:
      update.kind = WorkerUpdate::Kind::kStarted;
      update.cached_tokens = proto.started().cached_tokens();
      return update;
    case pb::WorkerUpdate::kKvCommitted:
      update.kind = WorkerUpdate::Kind::kKvCommitted;
      return update;
    case pb::WorkerUpdate::kToken: {
      update.kind = WorkerUpdate::Kind::kToken;
      BATON_ASSIGN_OR_RETURN(update.token, FromProto(proto.token()));
      return update;
    }
    case pb::WorkerUpdate::kFinished:
      break;
    case pb::WorkerUpdate::UPDATE_NOT_SET:
      return absl::InvalidArgumentError("a worker update without content");
  }
  const pb::JobFinished& finished = proto.finished();
  update.kind = WorkerUpdate::Kind::kFinished;
  update.kv_digest = finished.kv_digest();
  update.times = {.queue_ns = finished.queue_ns(),
                  .compute_ns = finished.compute_ns(),
                  .read_ns = finished.read_ns(),
                  .digest_ns = finished.digest_ns(),
                  .transfer_tail_ns = finished.transfer_tail_ns(),
                  .transfer_bytes = finished.transfer_bytes()};
  return update;
}

absl::Status CheckIncarnation(const std::string& stated, const Incarnation& own) {
  if (stated == own.ToHex()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("this process is incarnation ", own.ToHex(), ", not ", stated, ": it was restarted"));
}

}  // namespace baton::rpc
