#include "common/rpc/wire.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/limits.h"
#include "common/status.h"

namespace baton::rpc {
namespace pb = internal::v1;

constexpr size_t kIdBytes = 16;

grpc::Status ToGrpc(const absl::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
}

absl::Status FromGrpc(const grpc::Status& status) {
  return {static_cast<absl::StatusCode>(status.error_code()), status.error_message()};
}

std::string ToBytes(const Id128& id) {
  std::string bytes(kIdBytes, '\0');
  for (size_t i = 0; i < kIdBytes; ++i) {
    const uint64_t half = i < kIdBytes / 2 ? id.high : id.low;
    bytes[i] = static_cast<char>(half >> (56 - 8 * (i % 8)));
  }
  return bytes;
}

absl::StatusOr<Id128> FromBytes(const std::string& bytes) {
  if (bytes.size() != kIdBytes) {
    return absl::InvalidArgumentError(absl::StrCat("an id of ", bytes.size(), " bytes instead of ", kIdBytes));
  }
  Id128 id;
  for (size_t i = 0; i < kIdBytes; ++i) {
    uint64_t& half = i < kIdBytes / 2 ? id.high : id.low;
    half = half << 8 | static_cast<uint8_t>(bytes[i]);
  }
  return id;
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

void ToProto(const KvOrigin& origin, pb::KvOrigin* proto) {
  proto->set_target(origin.target);
  proto->set_incarnation(ToBytes(origin.incarnation));
}

absl::StatusOr<KvOrigin> FromProto(const pb::KvOrigin& proto) {
  BATON_ASSIGN_OR_RETURN(const Incarnation incarnation, FromBytes(proto.incarnation()));
  return KvOrigin{.incarnation = incarnation, .target = proto.target()};
}

namespace {

// The kinds have the same numbers here and there.
static_assert(static_cast<int>(GrammarKind::kNone) == pb::OutputGrammar::KIND_UNSPECIFIED);
static_assert(static_cast<int>(GrammarKind::kEbnf) == pb::OutputGrammar::KIND_EBNF);

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
  if (params.prompt_logprobs >= 0) proto->set_prompt_logprobs(params.prompt_logprobs);
  proto->set_pooling(static_cast<pb::Pooling>(params.pooling));
  proto->mutable_logit_bias()->Reserve(static_cast<int>(params.logit_bias.size()));
  for (const TokenBias& each : params.logit_bias) {
    pb::TokenBias* bias = proto->add_logit_bias();
    bias->set_id(each.token);
    bias->set_bias(each.bias);
  }
  if (params.grammar.empty()) return;
  proto->mutable_grammar()->set_kind(static_cast<pb::OutputGrammar::Kind>(params.grammar.kind));
  proto->mutable_grammar()->set_text(params.grammar.text);
}

SamplingParams FromProto(const pb::Sampling& proto) {
  SamplingParams params = {.temperature = proto.temperature(),
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
                           .logprobs = proto.logprobs(),
                           .prompt_logprobs = proto.has_prompt_logprobs() ? proto.prompt_logprobs() : -1,
                           .pooling = static_cast<Pooling>(proto.pooling())};
  params.logit_bias.reserve(static_cast<size_t>(proto.logit_bias_size()));
  for (const pb::TokenBias& each : proto.logit_bias()) {
    params.logit_bias.push_back({.token = each.id(), .bias = each.bias()});
  }
  params.grammar = {.kind = static_cast<GrammarKind>(proto.grammar().kind()), .text = proto.grammar().text()};
  return params;
}

}  // namespace

void ToProto(const WorkerJob& job, TimeNs now, pb::JobParams* proto) {
  ToProto(job.key, proto->mutable_key());
  *proto->mutable_prompt() = {job.prompt.begin(), job.prompt.end()};
  proto->set_emitted(job.emitted);
  ToProto(job.sampling, proto->mutable_sampling());
  proto->set_tenant(job.tenant);
  if (job.deadline != kNever) proto->set_timeout_ms(std::max<int64_t>(1, (job.deadline - now) / kNsPerMs));
  proto->set_want_kv_digest(job.want_kv_digest);
  proto->set_alone_outputs(job.alone_outputs);
  proto->set_secret(ToBytes(job.secret));
  proto->set_traceparent(job.trace.traceparent);
  proto->set_tracestate(job.trace.tracestate);
  proto->set_baggage(job.trace.baggage);
}

absl::StatusOr<WorkerJob> FromProto(const pb::JobParams& proto, TimeNs now) {
  // The longest deadline that a worker accepts: a week.
  constexpr int64_t kMaxTimeoutMs = int64_t{7} * 24 * 3600 * 1000;
  WorkerJob job;
  BATON_ASSIGN_OR_RETURN(job.key, FromProto(proto.key()));
  job.prompt = {proto.prompt().begin(), proto.prompt().end()};
  job.emitted = proto.emitted();
  if (!pb::OutputGrammar::Kind_IsValid(proto.sampling().grammar().kind())) {
    return absl::InvalidArgumentError(
        absl::StrCat("a grammar of the unknown kind ", static_cast<int>(proto.sampling().grammar().kind())));
  }
  if (!pb::Pooling_IsValid(proto.sampling().pooling())) {
    return absl::InvalidArgumentError(
        absl::StrCat("an embedding of the unknown kind ", static_cast<int>(proto.sampling().pooling())));
  }
  job.sampling = FromProto(proto.sampling());
  job.tenant = proto.tenant();
  if (proto.timeout_ms() > 0) job.deadline = After(now, std::min(proto.timeout_ms(), kMaxTimeoutMs));
  job.want_kv_digest = proto.want_kv_digest();
  job.alone_outputs = proto.alone_outputs();
  BATON_ASSIGN_OR_RETURN(job.secret, FromBytes(proto.secret()));
  job.trace = {.traceparent = proto.traceparent(), .tracestate = proto.tracestate(), .baggage = proto.baggage()};
  return job;
}

namespace {

// `Proto` is Token or CallToken.
template <typename Proto>
void FillToken(const OutputToken& token, Proto* proto) {
  proto->set_index(token.index);
  proto->set_id(token.token);
  proto->set_finish(static_cast<pb::Finish>(token.finish));
  proto->set_logprob(token.logprob);
  for (const TopLogprob& top : token.top) {
    proto->add_top_ids(top.token);
    proto->add_top_logprobs(top.logprob);
  }
  if (!token.embedding.empty()) *proto->mutable_embedding() = {token.embedding.begin(), token.embedding.end()};
}

template <typename Proto>
absl::StatusOr<OutputToken> ReadToken(const Proto& proto) {
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
  if (proto.embedding_size() > kMaxEmbeddingValues) {
    return absl::InvalidArgumentError(
        absl::StrCat("output token ", proto.index(), " has an embedding of ", proto.embedding_size(), " values"));
  }
  OutputToken token{.index = proto.index(),
                    .token = proto.id(),
                    .finish = static_cast<FinishReason>(proto.finish()),
                    .logprob = proto.logprob()};
  token.top.reserve(static_cast<size_t>(top_count));
  for (int i = 0; i < top_count; ++i) token.top.push_back({proto.top_ids(i), proto.top_logprobs(i)});
  token.embedding.assign(proto.embedding().begin(), proto.embedding().end());
  return token;
}

void FillPrompt(const WorkerUpdate& update, pb::CallPrompt* proto) {
  proto->set_first(update.first_prompt);
  const int count = static_cast<int>(update.prompt.size());
  proto->mutable_logprobs()->Reserve(count);
  proto->mutable_ranks()->Reserve(count);
  proto->mutable_top_counts()->Reserve(count);
  for (const PromptLogprob& each : update.prompt) {
    proto->add_logprobs(each.logprob);
    proto->add_ranks(each.rank);
    proto->add_top_counts(static_cast<int32_t>(each.top.size()));
    for (const TopLogprob& top : each.top) {
      proto->add_top_ids(top.token);
      proto->add_top_logprobs(top.logprob);
    }
  }
}

// Whether the lists of the message belong together.
bool ListsFit(const pb::CallPrompt& proto) {
  const int count = proto.logprobs_size();
  if (proto.first() < 1 || proto.ranks_size() != count || proto.top_counts_size() != count) return false;
  int64_t tops = 0;
  for (const int32_t top_count : proto.top_counts()) {
    if (top_count < 0 || top_count > kMaxLogprobs) return false;
    tops += top_count;
  }
  return proto.top_ids_size() == tops && proto.top_logprobs_size() == tops;
}

void FillCommitted(const WorkerReport& report, pb::CallCommitted* proto) {
  proto->set_read_ns(report.read_ns);
  proto->set_digest_ns(report.digest_ns);
  proto->set_transfer_tail_ns(report.transfer_tail_ns);
  proto->set_transfer_bytes(report.transfer_bytes);
  proto->set_transport(report.transport);
}

void FillFinished(const WorkerUpdate& update, pb::CallFinished* proto) {
  proto->set_kv_digest(update.kv_digest);
  proto->set_queue_ns(update.report.queue_ns);
  proto->set_compute_ns(update.report.compute_ns);
  proto->set_read_ns(update.report.read_ns);
  proto->set_digest_ns(update.report.digest_ns);
  proto->set_transfer_tail_ns(update.report.transfer_tail_ns);
  proto->set_transfer_bytes(update.report.transfer_bytes);
  proto->set_steps(update.report.steps);
  proto->set_batch_sequences(update.report.batch_sequences);
  proto->set_max_batch_sequences(update.report.max_batch_sequences);
  proto->set_preemptions(update.report.preemptions);
  proto->set_transport(update.report.transport);
}

}  // namespace

void ToProto(const OutputToken& token, pb::Token* proto) { FillToken(token, proto); }

absl::StatusOr<OutputToken> FromProto(const pb::Token& proto) { return ReadToken(proto); }

absl::StatusOr<OutputToken> FromProto(const pb::CallToken& proto) { return ReadToken(proto); }

namespace {

// Whoever looks at a report adds its numbers up.
absl::Status CheckReport(const WorkerReport& report) {
  for (const int64_t number :
       {report.queue_ns, report.compute_ns, report.steps, report.batch_sequences, report.max_batch_sequences,
        report.preemptions, report.read_ns, report.digest_ns, report.transfer_tail_ns, report.transfer_bytes}) {
    if (number < 0 || number > kMaxStatedNumber) {
      return absl::InvalidArgumentError(absl::StrCat("a report with the number ", number));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<WorkerUpdate> FromProto(const pb::CallCommitted& proto) {
  WorkerUpdate update{.kind = WorkerUpdate::Kind::kKvCommitted, .token = {}};
  update.report.read_ns = proto.read_ns();
  update.report.digest_ns = proto.digest_ns();
  update.report.transfer_tail_ns = proto.transfer_tail_ns();
  update.report.transfer_bytes = proto.transfer_bytes();
  update.report.transport = proto.transport();
  BATON_RETURN_IF_ERROR(CheckReport(update.report));
  return update;
}

absl::StatusOr<WorkerUpdate> FromProto(const pb::CallFrozen& proto) {
  WorkerUpdate update{.kind = WorkerUpdate::Kind::kFrozen, .token = {}, .kv_digest = proto.kv_digest()};
  BATON_ASSIGN_OR_RETURN(update.token, ReadToken(proto.token()));
  return update;
}

absl::StatusOr<WorkerUpdate> FromProto(const pb::CallPrompt& proto) {
  if (!ListsFit(proto)) {
    return absl::InvalidArgumentError(absl::StrCat("log-probabilities of ", proto.logprobs_size(),
                                                   " tokens of a prompt, with lists that do not belong together"));
  }
  WorkerUpdate update{.kind = WorkerUpdate::Kind::kPrompt, .token = {}, .first_prompt = proto.first()};
  update.prompt.reserve(static_cast<size_t>(proto.logprobs_size()));
  int top = 0;
  for (int i = 0; i < proto.logprobs_size(); ++i) {
    PromptLogprob& each = update.prompt.emplace_back();
    each.logprob = proto.logprobs(i);
    each.rank = proto.ranks(i);
    each.top.reserve(static_cast<size_t>(proto.top_counts(i)));
    for (const int end = top + proto.top_counts(i); top < end; ++top) {
      each.top.push_back({proto.top_ids(top), proto.top_logprobs(top)});
    }
  }
  return update;
}

absl::StatusOr<WorkerUpdate> FromProto(const pb::CallFinished& proto) {
  WorkerUpdate update{.kind = WorkerUpdate::Kind::kFinished, .token = {}};
  update.kv_digest = proto.kv_digest();
  update.report = {.queue_ns = proto.queue_ns(),
                   .compute_ns = proto.compute_ns(),
                   .steps = proto.steps(),
                   .batch_sequences = proto.batch_sequences(),
                   .max_batch_sequences = proto.max_batch_sequences(),
                   .preemptions = proto.preemptions(),
                   .read_ns = proto.read_ns(),
                   .digest_ns = proto.digest_ns(),
                   .transfer_tail_ns = proto.transfer_tail_ns(),
                   .transfer_bytes = proto.transfer_bytes(),
                   .transport = proto.transport()};
  BATON_RETURN_IF_ERROR(CheckReport(update.report));
  return update;
}

void AddReport(uint64_t call, const WorkerUpdate& update, pb::WorkerMessage* proto) {
  switch (update.kind) {
    case WorkerUpdate::Kind::kStarted: {
      pb::CallStarted* started = proto->add_started();
      started->set_call(call);
      started->set_cached_tokens(update.cached_tokens);
      return;
    }
    case WorkerUpdate::Kind::kKvCommitted: {
      pb::CallCommitted* committed = proto->add_kv_committed();
      committed->set_call(call);
      return FillCommitted(update.report, committed);
    }
    case WorkerUpdate::Kind::kToken: {
      pb::CallToken* token = proto->add_tokens();
      token->set_call(call);
      return FillToken(update.token, token);
    }
    case WorkerUpdate::Kind::kFrozen: {
      pb::CallFrozen* frozen = proto->add_frozen();
      frozen->set_call(call);
      frozen->set_kv_digest(update.kv_digest);
      return FillToken(update.token, frozen->mutable_token());
    }
    case WorkerUpdate::Kind::kPrompt: {
      pb::CallPrompt* prompt = proto->add_prompts();
      prompt->set_call(call);
      return FillPrompt(update, prompt);
    }
    case WorkerUpdate::Kind::kFinished:
      break;
  }
  pb::CallFinished* finished = proto->add_finished();
  finished->set_call(call);
  FillFinished(update, finished);
}

void AddEnd(uint64_t call, const absl::Status& status, pb::WorkerMessage* proto) {
  pb::CallEnded* ended = proto->add_ended();
  ended->set_call(call);
  ended->set_code(static_cast<int32_t>(status.code()));
  ended->set_message(std::string(status.message()));
}

namespace {

BlockHold FromProto(pb::BlockHold hold) {
  for (const BlockHold known : kBlockHolds) {
    if (static_cast<int>(hold) == static_cast<int>(known) + 1) return known;
  }
  return BlockHold::kEnded;
}

}  // namespace

void ToProto(const BlockReport& report, pb::BlockReport* proto) {
  proto->set_free_blocks(report.free_blocks);
  proto->set_cached_blocks(report.cached_blocks);
  proto->set_other_routers_blocks(report.other_routers_blocks);
  for (const BlockHolder& holder : report.holders) {
    pb::BlockHolder* one = proto->add_holders();
    ToProto(holder.key, one->mutable_key());
    one->set_hold(static_cast<pb::BlockHold>(static_cast<int>(holder.hold) + 1));
    one->set_blocks(holder.blocks);
    one->set_own_blocks(holder.own_blocks);
    one->set_held_ms(holder.held_ms);
  }
}

absl::StatusOr<BlockReport> FromProto(const pb::BlockReport& proto) {
  if (proto.free_blocks() < 0 || proto.cached_blocks() < 0 || proto.other_routers_blocks() < 0 ||
      proto.holders_size() > kMaxSequences) {
    return absl::InvalidArgumentError(
        absl::StrCat("a block report of ", proto.free_blocks(), " free and ", proto.cached_blocks(), " cached blocks, ",
                     proto.other_routers_blocks(), " of other routers, and ", proto.holders_size(), " holders"));
  }
  BlockReport report = {.free_blocks = proto.free_blocks(),
                        .cached_blocks = proto.cached_blocks(),
                        .other_routers_blocks = proto.other_routers_blocks(),
                        .holders = {}};
  report.holders.reserve(static_cast<size_t>(proto.holders_size()));
  for (const pb::BlockHolder& one : proto.holders()) {
    if (one.own_blocks() < 0 || one.own_blocks() > one.blocks() || one.held_ms() < 0) {
      return absl::InvalidArgumentError(absl::StrCat("a holder of ", one.blocks(), " blocks, ", one.own_blocks(),
                                                     " of its own, for ", one.held_ms(), " ms"));
    }
    BATON_ASSIGN_OR_RETURN(const JobKey key, FromProto(one.key()));
    report.holders.push_back({.key = key,
                              .hold = FromProto(one.hold()),
                              .blocks = one.blocks(),
                              .own_blocks = one.own_blocks(),
                              .held_ms = one.held_ms()});
  }
  return report;
}

absl::Status FromProto(const pb::CallEnded& proto, absl::Status& end) {
  if (proto.code() < 0 || proto.code() > static_cast<int32_t>(absl::StatusCode::kUnauthenticated)) {
    return absl::InvalidArgumentError(absl::StrCat("call ", proto.call(), " ended with the code ", proto.code()));
  }
  end = absl::Status(static_cast<absl::StatusCode>(proto.code()), proto.message());
  return absl::OkStatus();
}

}  // namespace baton::rpc
