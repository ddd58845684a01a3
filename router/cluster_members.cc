#include "router/cluster_members.h"

#include <algorithm>
#include <optional>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/drain.h"
#include "common/duration_text.h"
#include "common/limits.h"
#include "common/log.h"
#include "common/own_fault.h"
#include "common/rpc/protocol.h"
#include "common/rpc/wire.h"
#include "common/status.h"
#include "router/partners.h"

namespace baton::router {
namespace pb = internal::v1;
namespace {

constexpr int kHeartbeatIntervalMs = 100;
// What a start, a cancel or an answer takes besides its own bytes.
constexpr size_t kFieldBytes = 16;

absl::StatusOr<WorkerRole> ReadRole(pb::WorkerRole role) {
  switch (role) {
    case pb::WORKER_ROLE_PREFILL:
      return WorkerRole::kPrefill;
    case pb::WORKER_ROLE_DECODE:
      return WorkerRole::kDecode;
    case pb::WORKER_ROLE_MIXED:
      return WorkerRole::kMixed;
    default:
      return absl::InvalidArgumentError("the worker states no role");
  }
}

std::string CallsInWords(size_t count) { return absl::StrCat(count, count == 1 ? " open call" : " open calls"); }

// Makes a stranger's text safe to show in a log or an error: short, and without control characters.
std::string Printable(const std::string& text) { return absl::CHexEscape(text.substr(0, kMaxWorkerTextBytes)); }

// Tells people a ledger's news; the first orphan stands for all.
std::string DescribeNews(const LedgerNews& news) {
  std::vector<std::string> parts;
  if (!news.orphans.empty()) {
    int64_t blocks = 0;
    for (const BlockHolder& orphan : news.orphans) blocks += orphan.blocks;
    const size_t attempts = news.orphans.size();
    parts.push_back(absl::StrCat(blocks, " of ", attempts, attempts == 1 ? " attempt" : " attempts",
                                 " without a call, such as ", news.orphans.front().key.ToString()));
  }
  if (news.unaccounted_blocks != 0) {
    parts.push_back(absl::StrCat(news.unaccounted_blocks, " that are neither free nor cached nor held"));
  }
  return absl::StrJoin(parts, ", and ");
}

// Prompts are token ids, so a worker must have the router's vocabulary. What else it has may differ: workers of one
// name and different fingerprints form groups.
absl::Status CheckServedModel(const pb::Hello& hello, const ClusterMembersOptions& options) {
  if (hello.model() != options.model) {
    return absl::FailedPreconditionError(
        absl::StrCat("this router serves ", options.model, ", the worker has ", Printable(hello.model()),
                     ": give the worker the router's --model, or --served-model-name ", options.model,
                     " if it has the same model under another file name"));
  }
  const bool stated = options.vocab_size != 0 && hello.vocab_size() != 0;
  if (stated && hello.vocab_size() != options.vocab_size) {
    return absl::FailedPreconditionError(absl::StrCat("this router's ", options.model, " has ", options.vocab_size,
                                                      " token ids, the worker's ", hello.vocab_size(),
                                                      ": these are different models; give both the same --model"));
  }
  return absl::OkStatus();
}

absl::StatusOr<WorkerInfo> ReadHello(const pb::Hello& hello, const ClusterMembersOptions& options) {
  // First: the other fields mean what they mean in this version only.
  BATON_RETURN_IF_ERROR(rpc::CheckProtocolVersion("worker", hello.protocol_version()));
  WorkerInfo info;
  BATON_ASSIGN_OR_RETURN(info.incarnation, rpc::FromBytes(hello.incarnation()));
  if (!hello.resumes().empty()) {
    BATON_ASSIGN_OR_RETURN(info.resumes, rpc::FromBytes(hello.resumes()));
  }
  BATON_ASSIGN_OR_RETURN(info.role, ReadRole(hello.role()));
  BATON_RETURN_IF_ERROR(CheckServedModel(hello, options));
  info.target = hello.target();
  info.model = hello.model();
  info.fingerprint = hello.fingerprint();
  info.total_blocks = hello.total_blocks();
  info.max_sequences = hello.max_sequences();
  info.chunk_tokens = hello.chunk_tokens();
  info.context_length = hello.context_length();
  info.pid = hello.pid();
  info.admin = hello.admin();
  info.headroom_blocks = hello.headroom_blocks();
  info.resumes_jobs = (hello.features() & rpc::kFeatureResume) != 0;
  info.job_features =
      static_cast<JobFeatures>(((hello.features() & rpc::kFeatureLogitBias) != 0 ? kFeatureOfBias : 0) |
                               ((hello.features() & rpc::kFeatureGrammar) != 0 ? kFeatureOfGrammar : 0) |
                               ((hello.features() & rpc::kFeaturePromptLogprobs) != 0 ? kFeatureOfPromptLogprobs : 0) |
                               ((hello.features() & rpc::kFeatureEmbeddings) != 0 ? kFeatureOfEmbeddings : 0));
  info.hands_over = (hello.features() & rpc::kFeatureHandOver) != 0;
  info.takes_drain_orders = (hello.features() & rpc::kFeatureDrainOrder) != 0;
  info.drain_timeout_ms = std::clamp(hello.drain_timeout_ms(), 0, kMaxDrainTimeoutMs);
  info.groups = {.full = hello.full_groups(), .sliding = hello.sliding_groups(), .window = hello.window()};
  return info;
}

absl::StatusOr<WorkerLoad> ParseLoad(const pb::Load& load) {
  for (const int64_t count :
       {int64_t{load.free_blocks()}, int64_t{load.used_blocks()}, int64_t{load.cached_blocks()},
        int64_t{load.running()}, load.pending_prompt_tokens(), load.steps(), load.step_age_ms()}) {
    if (count < 0 || count > rpc::kMaxStatedNumber) {
      return absl::InvalidArgumentError(absl::StrCat("a load with a count of ", count));
    }
  }
  return WorkerLoad{.state = load.draining() ? WorkerState::kDraining : WorkerState::kServing,
                    .free_blocks = load.free_blocks(),
                    .used_blocks = load.used_blocks(),
                    .cached_blocks = load.cached_blocks(),
                    .running = load.running(),
                    .pending_prompt_tokens = load.pending_prompt_tokens(),
                    .steps = load.steps(),
                    .step_age_ms = load.step_age_ms()};
}

absl::StatusOr<WorkerFault> ReadFault(const pb::Fault& fault) {
  if (fault.at_work_size() > kMaxSequences) return absl::InvalidArgumentError("a fault in a step of too many attempts");
  WorkerFault read = {.signal = fault.signal(), .at_work = {}};
  for (const pb::JobKey& key : fault.at_work()) {
    BATON_ASSIGN_OR_RETURN(read.at_work.emplace_back(), rpc::FromProto(key));
  }
  return read;
}

// `start` is StartPrefill or StartDecode.
template <typename StartAction>
void FillJob(const StartAction& start, TimeNs now, pb::JobParams* proto) {
  const JobSpec& job = *start.job;
  rpc::ToProto({.key = start.key,
                .secret = start.secret,
                .prompt = job.prompt,
                .emitted = job.emitted,
                .sampling = job.sampling,
                .tenant = job.tenant,
                .deadline = job.deadline,
                .want_kv_digest = job.want_kv_digest,
                .alone_outputs = job.alone_outputs,
                .trace = job.trace},
               now, proto);
}

}  // namespace

void ClusterMembers::OnMessage(Dispatcher& dispatcher, const std::shared_ptr<WorkerStream>& stream,
                               const pb::WorkerMessage& message) {
  if (stream->ended()) return;
  registry_ = &dispatcher.registry();
  const auto known = by_stream_.find(stream.get());
  if (known == by_stream_.end()) return Join(dispatcher, stream, message);
  const WorkerId id = known->second;
  Member& member = members_.at(id);
  if (const absl::Status read = Read(dispatcher, id, member, message); !read.ok()) {
    Break(dispatcher, id, member, read);
  } else if (message.has_fault()) {
    OnFault(dispatcher, id, member, message.fault());
  }
}

void ClusterMembers::Break(Dispatcher& dispatcher, const WorkerId& id, const Member& member, const absl::Status& how) {
  const std::string what = absl::StrCat("a malformed message: ", how.message());
  spdlog::error("{} is lost {}: it sent {}", member.name, Past(member), what);
  member.stream->End(absl::InvalidArgumentError(what));
  Forget(id);
  dispatcher.OnWorkerLost(id, absl::UnavailableError(absl::StrCat("the worker sent ", what)));
  TellServing();
}

void ClusterMembers::OnFault(Dispatcher& dispatcher, const WorkerId& id, const Member& member, const pb::Fault& fault) {
  const absl::StatusOr<WorkerFault> read = ReadFault(fault);
  if (!read.ok()) return Break(dispatcher, id, member, read.status());
  std::vector<std::string> names;
  for (const JobKey& key : read->at_work) names.push_back(key.choice_key().ToString());
  const std::string where =
      names.empty() ? "not in a step of its engine" : absl::StrCat("in a step of ", absl::StrJoin(names, ", "));
  spdlog::error("{} is lost {}: its process dies of {}, {}", member.name, Past(member), SignalName(read->signal),
                where);
  member.stream->End(absl::UnavailableError("the worker dies"));
  Forget(id);
  dispatcher.OnWorkerFault(id, *read);
  TellServing();
}

void ClusterMembers::Join(Dispatcher& dispatcher, const std::shared_ptr<WorkerStream>& stream,
                          const pb::WorkerMessage& message) {
  const absl::Status joined = TryJoin(dispatcher, stream, message);
  if (joined.ok()) return;
  OnRefused(dispatcher, message, joined);
  stream->End(joined);
}

absl::Status ClusterMembers::TryJoin(Dispatcher& dispatcher, const std::shared_ptr<WorkerStream>& stream,
                                     const pb::WorkerMessage& message) {
  if (!message.has_hello()) return absl::InvalidArgumentError("the first message of a worker is its hello");
  const pb::Hello& hello = message.hello();
  BATON_ASSIGN_OR_RETURN(WorkerInfo info, ReadHello(hello, options_));
  BATON_RETURN_IF_ERROR(stream->CheckRole(hello.role()));
  info.id = random_.NextId();
  BATON_RETURN_IF_ERROR(dispatcher.OnWorkerJoin(info));
  Member& member = members_[info.id];
  member.stream = stream;
  member.name = absl::StrCat(RoleName(info.role), " worker ", Printable(info.target), " (pid ", info.pid, ")");
  member.joined_at = clock_.Now();
  member.has_capabilities = (hello.features() & rpc::kFeatureCapabilities) != 0;
  if (options_.capabilities != nullptr && !member.has_capabilities) {
    spdlog::warn("{} is of a version without capabilities: the secrets of its attempts are enough to fetch their KV",
                 member.name);
  }
  by_stream_[stream.get()] = info.id;
  const Partners partners = PartnersOf(*registry_, *registry_->Find(info.id));
  spdlog::info("{} joined: {} blocks, group {} ({}){}{}", member.name, info.total_blocks,
               registry_->GroupName(info.fingerprint), Printable(info.fingerprint),
               partners.count > 0 ? "" : ", without a partner yet: ", partners.why_none);
  stream->Send(sizeof(pb::Accepted), [&](pb::RouterMessage& answer) {
    pb::Accepted* accepted = answer.mutable_accepted();
    accepted->set_membership(rpc::ToBytes(info.id));
    accepted->set_heartbeat_interval_ms(kHeartbeatIntervalMs);
    accepted->set_protocol_version(rpc::kProtocolVersion);
    accepted->set_features(hello.features() & rpc::kProtocolFeatures);
  });
  TellServing();
  return absl::OkStatus();
}

void ClusterMembers::OnAnnounced(Dispatcher& dispatcher, const std::vector<pb::Hello>& hellos) {
  std::vector<WorkerInfo> announced;
  for (const pb::Hello& hello : hellos) {
    absl::StatusOr<WorkerInfo> info = ReadHello(hello, options_);
    if (!info.ok()) continue;
    // It will be another one when the worker joins.
    info->id = random_.NextId();
    announced.push_back(*std::move(info));
  }
  dispatcher.OnWorkersAnnounced(announced);
}

// A refused worker asks again and again, and is told each time. Here it is logged once for each reason.
void ClusterMembers::OnRefused(Dispatcher& dispatcher, const pb::WorkerMessage& message, const absl::Status& why) {
  const pb::Hello& hello = message.hello();
  const absl::StatusOr<WorkerRole> role = ReadRole(hello.role());
  RefusedWorker refused = {.target = hello.target().empty() ? "an unknown address" : Printable(hello.target()),
                           .role = role.ok() ? RoleName(*role) : "",
                           .model = Printable(hello.model()),
                           .pid = hello.pid(),
                           .why = std::string(why.message()),
                           .asked_at = clock_.Now()};
  const std::string who = absl::StrCat(refused.role, refused.role.empty() ? "" : " ", "worker ", refused.target,
                                       " (pid ", refused.pid, ")");
  if (dispatcher.OnWorkerRefused(std::move(refused))) spdlog::warn("refused {}: {}", who, std::string(why.message()));
}

absl::Status ClusterMembers::Read(Dispatcher& dispatcher, const WorkerId& id, Member& member,
                                  const pb::WorkerMessage& message) {
  if (message.has_hello()) return absl::InvalidArgumentError("a second hello");
  if (message.membership() != rpc::ToBytes(id)) return absl::InvalidArgumentError("another membership's id");
  if (member.draining && !std::exchange(member.drain_accepted, true)) {
    member.stream->Send(kFieldBytes, [](pb::RouterMessage& answer) { answer.set_drain_accepted(true); });
  }
  if (message.has_load()) BATON_RETURN_IF_ERROR(ReadLoad(dispatcher, id, member, message.load()));
  BATON_RETURN_IF_ERROR(ReadReports(dispatcher, member, message));
  // Behind the ends of calls, so that no attempt of theirs seems to hold anything.
  return message.has_blocks() ? ReadBlocks(dispatcher, id, member, message.blocks()) : absl::OkStatus();
}

absl::Status ClusterMembers::ReadBlocks(Dispatcher& dispatcher, const WorkerId& id, const Member& member,
                                        const pb::BlockReport& blocks) {
  BATON_ASSIGN_OR_RETURN(const BlockReport report, rpc::FromProto(blocks));
  const LedgerNews news = dispatcher.OnWorkerBlocks(id, report);
  if (news.empty()) return absl::OkStatus();
  spdlog::error("{} holds KV blocks that nobody will give back: {}; see `baton ledger`, and start the worker anew",
                member.name, DescribeNews(news));
  return absl::OkStatus();
}

absl::Status ClusterMembers::ReadLoad(Dispatcher& dispatcher, const WorkerId& id, Member& member,
                                      const pb::Load& load) {
  BATON_ASSIGN_OR_RETURN(const WorkerLoad read, ParseLoad(load));
  dispatcher.OnWorkerLoad(id, read);
  if (read.state == WorkerState::kDraining && !std::exchange(member.draining, true)) {
    spdlog::info("{} is draining, with {}", member.name, CallsInWords(member.calls.size()));
    TellServing();
  }
  return absl::OkStatus();
}

absl::Status ClusterMembers::ReadReports(Dispatcher& dispatcher, Member& member, const pb::WorkerMessage& message) {
  const auto find = [&member](uint64_t number) -> absl::StatusOr<Call> {
    const auto it = member.calls.find(number);
    if (it != member.calls.end()) return it->second;
    return absl::InvalidArgumentError(absl::StrCat("a report of call ", number, ", which is not open"));
  };
  for (const pb::CallStarted& started : message.started()) {
    BATON_ASSIGN_OR_RETURN(const Call call, find(started.call()));
    dispatcher.OnWorkerUpdate(
        call.first, call.second,
        {.kind = WorkerUpdate::Kind::kStarted, .cached_tokens = started.cached_tokens(), .token = {}});
  }
  for (const pb::CallCommitted& committed : message.kv_committed()) {
    BATON_ASSIGN_OR_RETURN(const Call call, find(committed.call()));
    BATON_ASSIGN_OR_RETURN(const WorkerUpdate update, rpc::FromProto(committed));
    dispatcher.OnWorkerUpdate(call.first, call.second, update);
  }
  for (const pb::CallPrompt& prompt : message.prompts()) {
    BATON_ASSIGN_OR_RETURN(const Call call, find(prompt.call()));
    BATON_ASSIGN_OR_RETURN(const WorkerUpdate update, rpc::FromProto(prompt));
    dispatcher.OnWorkerUpdate(call.first, call.second, update);
  }
  for (const pb::CallToken& token : message.tokens()) {
    BATON_ASSIGN_OR_RETURN(const Call call, find(token.call()));
    BATON_ASSIGN_OR_RETURN(OutputToken output, rpc::FromProto(token));
    dispatcher.OnWorkerUpdate(call.first, call.second,
                              {.kind = WorkerUpdate::Kind::kToken, .token = std::move(output)});
  }
  for (const pb::CallFrozen& frozen : message.frozen()) {
    BATON_ASSIGN_OR_RETURN(const Call call, find(frozen.call()));
    BATON_ASSIGN_OR_RETURN(const WorkerUpdate update, rpc::FromProto(frozen));
    dispatcher.OnWorkerUpdate(call.first, call.second, update);
  }
  for (const pb::CallFinished& finished : message.finished()) {
    BATON_ASSIGN_OR_RETURN(const Call call, find(finished.call()));
    BATON_ASSIGN_OR_RETURN(const WorkerUpdate update, rpc::FromProto(finished));
    dispatcher.OnWorkerUpdate(call.first, call.second, update);
  }
  for (const pb::CallEnded& ended : message.ended()) {
    BATON_ASSIGN_OR_RETURN(const Call call, find(ended.call()));
    absl::Status status;
    BATON_RETURN_IF_ERROR(rpc::FromProto(ended, status));
    member.calls.erase(ended.call());
    member.numbers.erase(call);
    dispatcher.OnWorkerEnd(call.first, call.second, status);
  }
  return absl::OkStatus();
}

void ClusterMembers::OnClosed(Dispatcher& dispatcher, const WorkerStream& stream) {
  const auto known = by_stream_.find(&stream);
  if (known == by_stream_.end()) return;
  const WorkerId id = known->second;
  const Member& member = members_.at(id);
  const bool left = member.draining && member.calls.empty();
  if (left) {
    spdlog::info("{} left {}", member.name, Past(member));
  } else {
    spdlog::warn("{} is lost {}: its stream broke", member.name, Past(member));
  }
  Forget(id);
  dispatcher.OnWorkerLost(id, absl::UnavailableError(left ? "the worker left" : "the worker's stream broke"));
  TellServing();
}

std::string ClusterMembers::Past(const Member& member) const {
  return absl::StrCat("after ", DurationText(clock_.Now() - member.joined_at), " as a member, with ",
                      CallsInWords(member.calls.size()));
}

bool ClusterMembers::NeedsCapability(const WorkerId& source, const WorkerId& reader) const {
  if (options_.capabilities == nullptr) return false;
  const auto serves = members_.find(source);
  const auto reads = members_.find(reader);
  return serves != members_.end() && reads != members_.end() && serves->second.has_capabilities &&
         reads->second.has_capabilities;
}

bool ClusterMembers::NeedsCapabilityOfAny(const WorkerId& source) const {
  const Worker* const serves = registry_->Find(source);
  if (serves == nullptr || !NeedsCapability(source, source)) return false;
  const auto& workers = registry_->workers();
  return std::all_of(workers.begin(), workers.end(), [&](const auto& entry) {
    const Worker& reads = entry.second;
    return !reads.can_decode() || reads.info.fingerprint != serves->info.fingerprint ||
           NeedsCapability(source, entry.first);
  });
}

void ClusterMembers::AddCapability(const StartDecode& start, pb::DecodeStart* decode) {
  Member& reader = members_.at(start.worker);
  std::shared_ptr<const pb::CapabilityKey> key = options_.capabilities->key();
  if (reader.capability_key != key) {
    reader.capability_key = key;
    reader.stream->Send(key->ByteSizeLong() + kFieldBytes,
                        [&](pb::RouterMessage& message) { *message.mutable_capability_key() = *key; });
  }
  // Which blocks the reader holds, it alone knows: it may ask for any.
  *decode->mutable_capability() = options_.capabilities->Sign({.key = start.key,
                                                               .source = start.prefill_incarnation,
                                                               .reader = start.incarnation,
                                                               .membership = rpc::MembershipTag(start.source),
                                                               .tenant = start.job->tenant,
                                                               .first_block = 0});
}

void ClusterMembers::StartCall(const WorkerId& worker, Call call, pb::CallStart start) {
  const auto it = members_.find(worker);
  if (it == members_.end()) return;
  Member& member = it->second;
  const uint64_t number = ++member.last_call;
  start.set_call(number);
  member.numbers[call] = number;
  member.calls.emplace(number, std::move(call));
  member.stream->Send(start.ByteSizeLong() + kFieldBytes,
                      [&](pb::RouterMessage& message) { *message.add_starts() = std::move(start); });
}

void ClusterMembers::Start(const StartPrefill& start) {
  pb::CallStart proto;
  FillJob(start, clock_.Now(), proto.mutable_job());
  proto.mutable_prefill()->set_solo(start.solo);
  if (NeedsCapability(start.worker, start.reader)) {
    proto.mutable_prefill()->set_reader_incarnation(rpc::ToBytes(registry_->Find(start.reader)->info.incarnation));
  }
  StartCall(start.worker, {Side::kPrefill, start.key}, std::move(proto));
}

void ClusterMembers::Start(const StartDecode& start) {
  pb::CallStart proto;
  FillJob(start, clock_.Now(), proto.mutable_job());
  pb::DecodeStart* decode = proto.mutable_decode();
  decode->set_local_prefill(start.local_prefill);
  decode->set_prefill_target(start.prefill_target);
  decode->set_prefill_incarnation(rpc::ToBytes(start.prefill_incarnation));
  for (const KvOrigin& origin : start.earlier) rpc::ToProto(origin, decode->add_earlier());
  if (NeedsCapability(start.source, start.worker)) AddCapability(start, decode);
  StartCall(start.worker, {Side::kDecode, start.key}, std::move(proto));
}

void ClusterMembers::Cancel(const CancelAttempt& cancel) {
  const auto member = members_.find(cancel.worker);
  if (member == members_.end()) return;
  const auto number = member->second.numbers.find({cancel.side, cancel.key});
  if (number == member->second.numbers.end()) return;
  member->second.stream->Send(kFieldBytes, [&](pb::RouterMessage& message) { message.add_cancels(number->second); });
}

void ClusterMembers::Move(const HandOverAttempt& move) {
  const auto member = members_.find(move.worker);
  if (member == members_.end()) return;
  const auto number = member->second.numbers.find({Side::kDecode, move.key});
  if (number == member->second.numbers.end()) return;
  pb::HandOver proto;
  proto.set_call(number->second);
  proto.set_next_attempt(move.hand_over.next.attempt);
  proto.set_secret(rpc::ToBytes(move.hand_over.secret));
  proto.set_needs_capability(!move.hand_over.is_taken_back() && NeedsCapabilityOfAny(move.worker));
  member->second.stream->Send(proto.ByteSizeLong() + kFieldBytes,
                              [&](pb::RouterMessage& message) { *message.add_hand_overs() = std::move(proto); });
}

void ClusterMembers::End(const EndMembership& end) {
  const auto it = members_.find(end.worker);
  if (it == members_.end()) return;
  spdlog::warn("{} is given up {}: {}", it->second.name, Past(it->second), std::string(end.why.message()));
  it->second.stream->End(end.why);
  Forget(end.worker);
  TellServing();
}

void ClusterMembers::Drain(const DrainWorker& drain) {
  const auto it = members_.find(drain.worker);
  if (it == members_.end()) return;
  spdlog::info("{} is told to drain, as an operator has ordered", it->second.name);
  it->second.stream->Send(kFieldBytes, [](pb::RouterMessage& message) { message.set_drain(true); });
}

void ClusterMembers::EndAll(const absl::Status& why) {
  for (const auto& [id, member] : members_) member.stream->End(why);
}

void ClusterMembers::Forget(const WorkerId& worker) {
  const auto it = members_.find(worker);
  by_stream_.erase(it->second.stream.get());
  members_.erase(it);
}

void ClusterMembers::TellServing() {
  const bool serving = registry_->CanServe();
  if (serving == std::exchange(serving_, serving)) return;
  if (serving) {
    spdlog::info("requests can be served");
  } else {
    spdlog::warn("no request can be served until there is {}", AwaitedWorkers(*registry_));
  }
  options_.on_serving(serving);
}

}  // namespace baton::router
