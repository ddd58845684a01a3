#include "router/journal_wire.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "baton/internal/v1/journal.pb.h"
#include "common/rpc/wire.h"
#include "common/status.h"

namespace baton::router {
namespace {

namespace journal = internal::v1;

absl::Status DamagedRecord(const JobId& id, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("the journal's record of job ", id.ToHex(), " is damaged: ", what));
}

// The text's ends only grow, and none lies beyond it.
bool HasOrderedTextEnds(const journal::JournaledResult& proto) {
  uint32_t end = 0;
  for (const uint32_t next : proto.text_ends()) {
    if (next < end || next > proto.text().size()) return false;
    end = next;
  }
  return proto.text_ends_size() == proto.tokens_size();
}

void WriteFinished(const GenerationFinished& finished, journal::JournaledResult* proto) {
  proto->set_finish(finished.reason == FinishReason::kStop ? journal::FINISH_STOP : journal::FINISH_LENGTH);
  proto->set_prompt_tokens(finished.usage.prompt_tokens);
  proto->set_output_tokens(finished.usage.output_tokens);
  proto->set_cached_prompt_tokens(finished.usage.cached_prompt_tokens);
  proto->set_kv_digest(finished.kv_digest);
  if (finished.other_numerics_from.has_value()) proto->set_other_numerics_from(*finished.other_numerics_from);
  proto->set_queue_ns(finished.timing.phases.queue_ns);
  proto->set_admission_ns(finished.timing.phases.admission_ns);
  proto->set_prefill_ns(finished.timing.phases.prefill_ns);
  proto->set_transfer_ns(finished.timing.phases.transfer_ns);
  proto->set_decode_ns(finished.timing.phases.decode_ns);
  proto->set_network_ns(finished.timing.network_ns);
  proto->set_total_ns(finished.timing.total_ns);
  proto->set_transfer_bytes(finished.decode.transfer_bytes);
  proto->set_read_ns(finished.decode.read_ns);
  proto->set_digest_ns(finished.decode.digest_ns);
  proto->set_transfer_tail_ns(finished.decode.transfer_tail_ns);
}

GenerationFinished ReadFinished(const JobId& id, uint64_t seed, const journal::JournaledResult& proto) {
  GenerationFinished finished;
  finished.id = id;
  finished.seed = seed;
  finished.reason = proto.finish() == journal::FINISH_STOP ? FinishReason::kStop : FinishReason::kLength;
  finished.usage = {.prompt_tokens = proto.prompt_tokens(),
                    .output_tokens = proto.output_tokens(),
                    .cached_prompt_tokens = proto.cached_prompt_tokens()};
  finished.kv_digest = proto.kv_digest();
  if (proto.has_other_numerics_from()) finished.other_numerics_from = proto.other_numerics_from();
  finished.timing = {.phases = {.queue_ns = proto.queue_ns(),
                                .admission_ns = proto.admission_ns(),
                                .prefill_ns = proto.prefill_ns(),
                                .transfer_ns = proto.transfer_ns(),
                                .decode_ns = proto.decode_ns()},
                     .network_ns = proto.network_ns(),
                     .total_ns = proto.total_ns()};
  finished.decode.transfer_bytes = proto.transfer_bytes();
  finished.decode.read_ns = proto.read_ns();
  finished.decode.digest_ns = proto.digest_ns();
  finished.decode.transfer_tail_ns = proto.transfer_tail_ns();
  return finished;
}

}  // namespace

std::string ToJournal(const KeptRequest& request) {
  const JobSpec& job = *request.job;
  journal::JournaledRequest proto;
  rpc::ToProto(WorkerJob{.key = {.job = job.id},
                         .prompt = job.prompt,
                         .sampling = job.sampling,
                         .tenant = job.tenant,
                         .want_kv_digest = job.want_kv_digest,
                         .trace = job.trace},
               /*now=*/0, proto.mutable_job());
  proto.set_model(request.model);
  *proto.mutable_stop() = {request.stop.begin(), request.stop.end()};
  proto.set_priority(job.priority);
  proto.set_least_outputs(job.least_outputs);
  proto.set_owner(request.owner);
  proto.set_idempotency_key(request.idempotency_key);
  proto.set_body_high(request.body.high);
  proto.set_body_low(request.body.low);
  proto.set_allow_other_numerics(job.allows_other_numerics);
  return proto.SerializeAsString();
}

std::string ToJournal(const KeptResult& result) {
  journal::JournaledResult proto;
  for (const KeptOutput& output : result.outputs) {
    rpc::ToProto(output.token, proto.add_tokens());
    proto.add_text_ends(output.text_end);
  }
  proto.set_text(result.text);
  WriteFinished(result.finished, &proto);
  return proto.SerializeAsString();
}

absl::StatusOr<KeptRequest> RequestFromJournal(const JobId& id, const std::string& bytes) {
  journal::JournaledRequest proto;
  if (!proto.ParseFromString(bytes)) return DamagedRecord(id, "it is no request");
  absl::StatusOr<WorkerJob> params = rpc::FromProto(proto.job(), /*now=*/0);
  if (!params.ok()) return DamagedRecord(id, params.status().message());
  if (params->key.job != id) return DamagedRecord(id, "it is that of another job");
  if (params->prompt.empty()) return DamagedRecord(id, "it has no prompt");
  auto job = std::make_shared<JobSpec>();
  job->id = id;
  job->prompt = std::move(params->prompt);
  job->sampling = std::move(params->sampling);
  job->tenant = std::move(params->tenant);
  job->want_kv_digest = params->want_kv_digest;
  job->trace = std::move(params->trace);
  job->priority = proto.priority();
  job->least_outputs = proto.least_outputs();
  job->allows_other_numerics = proto.allow_other_numerics();
  return KeptRequest{.job = std::move(job),
                     .model = std::move(*proto.mutable_model()),
                     .stop = {proto.stop().begin(), proto.stop().end()},
                     .owner = std::move(*proto.mutable_owner()),
                     .idempotency_key = std::move(*proto.mutable_idempotency_key()),
                     .body = {.high = proto.body_high(), .low = proto.body_low()}};
}

absl::StatusOr<std::shared_ptr<KeptResult>> ResultFromJournal(const JobId& id, uint64_t seed,
                                                              const std::string& bytes) {
  journal::JournaledResult proto;
  if (!proto.ParseFromString(bytes)) return DamagedRecord(id, "it is no result");
  if (!HasOrderedTextEnds(proto)) return DamagedRecord(id, "its tokens and its text do not match");
  auto result = std::make_shared<KeptResult>();
  for (int i = 0; i < proto.tokens_size(); ++i) {
    absl::StatusOr<OutputToken> token = rpc::FromProto(proto.tokens(i));
    if (!token.ok()) return DamagedRecord(id, token.status().message());
    token->other_numerics = proto.has_other_numerics_from() && token->index >= proto.other_numerics_from();
    result->outputs.push_back({.token = *std::move(token), .text_end = proto.text_ends(i)});
  }
  result->text = std::move(*proto.mutable_text());
  result->finished = ReadFinished(id, seed, proto);
  return result;
}

}  // namespace baton::router
