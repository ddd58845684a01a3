#include "simulator/kept_clients.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "router/generation_listener.h"

namespace baton::simulator {
namespace {

// A client that finds no router tries again after this time.
constexpr int64_t kFindAgainNs = 50 * kNsPerMs;
constexpr uint64_t kMaxReturns = 3;
constexpr int kKeyPercent = 45;
constexpr int kStopPercent = 15;
constexpr int kTwicePercent = 20;
constexpr int kLeavesPercent = 35;
constexpr int kSlowPercent = 10;
constexpr int kNeverPercent = 12;

// A few bytes of the text, from one character to another.
std::string DrawStop(RandomSource& random, const std::string& text) {
  constexpr uint64_t kMaxBytes = 3;
  const auto is_inside = [&](size_t at) { return at < text.size() && (static_cast<uint8_t>(text[at]) & 0xc0) == 0x80; };
  auto begin = static_cast<size_t>(random.Below(text.size()));
  size_t end = begin + 1 + static_cast<size_t>(random.Below(kMaxBytes));
  while (is_inside(begin)) --begin;
  while (is_inside(end)) ++end;
  return text.substr(begin, end - begin);
}

absl::Status Left() { return absl::CancelledError("the client left"); }

}  // namespace

// A kept job says nothing of its prompt.
bool KeptClients::Takes(const router::JobSpec& spec) {
  if (setup_.percent == 0 || !sim_.KeptChance(setup_.percent)) return false;
  const SamplingParams& sampling = spec.sampling;
  return sampling.prompt_logprobs < 0 && sampling.pooling == Pooling::kNone;
}

void KeptClients::Add(const router::JobSpec& spec, const std::vector<int32_t>& computed, int home, TimeNs submitted) {
  // A request stays what it is when others are left out.
  SeededRandom random(spec.id.high);
  const auto chance = [&random](int percent) { return random.Below(100) < static_cast<uint64_t>(percent); };
  Request& request = requests_.emplace_back();
  auto job = std::make_shared<router::JobSpec>(spec);
  job->deadline = kNever;
  request.computed = computed;
  request.oracle = MakeKeptOracle(computed, {});
  if (!request.oracle.text.empty() && chance(kStopPercent)) {
    request.kept.stop = {DrawStop(random, request.oracle.text)};
    request.oracle = MakeKeptOracle(computed, request.kept.stop);
  }
  request.kept.model = ServedFakeModel().name;
  if (chance(kKeyPercent)) request.kept.idempotency_key = spec.id.ToHex();
  request.kept.body = {.high = spec.id.low, .low = spec.id.high};
  request.kept.job = std::move(job);
  request.home = home;
  request.returns_left = static_cast<int>(random.Below(kMaxReturns + 1));
  ComeAt(request, submitted);
}

void KeptClients::ComeAt(Request& request, TimeNs time) {
  ++request.open;
  ++open_;
  last_event_ = std::max(last_event_, time);
  sim_.queue.At(time, [this, &request] { Come(request); });
}

void KeptClients::Come(Request& request) {
  --request.open;
  --open_;
  RouterNode* const router = routers_.FindRouter(request.home);
  if (router == nullptr) return ComeAt(request, sim_.queue.Now() + kFindAgainNs);
  for (int calls = sim_.KeptChance(kTwicePercent) ? 2 : 1; calls > 0; --calls) {
    const bool may_begin = !request.kept.idempotency_key.empty() || !request.was_sent;
    if (request.job.has_value() && (!may_begin || sim_.KeptChance(60))) {
      Resume(request, *router);
    } else if (may_begin) {
      Begin(request, *router);
    }
  }
}

KeptClients::CallPtr KeptClients::MakeCall(Request& request, RouterNode& router, const Id128& id) {
  auto call = std::make_shared<Call>(*this, request, router, id);
  calls_[id] = call;
  ++request.open;
  ++open_;
  if (sim_.KeptChance(kSlowPercent)) call->slow_until = sim_.queue.Now() + sim_.KeptBetween(1, 400) * kNsPerMs;
  if (sim_.KeptChance(kLeavesPercent)) {
    const TimeNs time = sim_.queue.Now() + sim_.KeptBetween(0, sim_.KeptChance(50) ? 300 : 30) * kNsPerMs;
    last_event_ = std::max(last_event_, time);
    sim_.queue.At(time, [this, call] { Leave(call); });
  }
  return call;
}

void KeptClients::Begin(Request& request, RouterNode& router) {
  const Id128 id = request.was_sent ? sim_.kept_random.NextId() : request.kept.job->id;
  request.was_sent = true;
  owners_[id] = &request;
  const CallPtr call = MakeCall(request, router, id);
  router::KeptRequest kept = request.kept;
  auto job = std::make_shared<router::JobSpec>(*kept.job);
  job->id = id;
  kept.job = std::move(job);
  sim_.Trace("client: ", id.ToHex(), " asks ", router.name(), " to keep ", request.kept.job->prompt.size(),
             " tokens for ", request.oracle.tokens.size(), ", key '", kept.idempotency_key, "'");
  router.FromClient([call, kept, &router](router::Dispatcher& dispatcher) {
    if (call->cancelled()) return router::WriteFailed(Left(), *call);
    absl::StatusOr<router::JobOutput> output = router::JobOutput::Create(*ServedFakeModel().tokenizer, kept.stop);
    BATON_CHECK(output.ok()) << output.status();
    router.kept().Generate(kept, *std::move(output), router.clock().Now(), call, dispatcher);
  });
}

void KeptClients::Resume(Request& request, RouterNode& router) {
  const CallPtr call = MakeCall(request, router, sim_.kept_random.NextId());
  call->job = request.job;
  // Some have lost a part of what they had.
  const bool has_all = sim_.KeptChance(70);
  call->next_index = has_all ? request.tokens : static_cast<size_t>(sim_.kept_random.Below(request.tokens + 1));
  const std::vector<size_t>& ends = request.oracle.text_ends;
  call->text_at = call->next_index == 0 ? 0 : ends[call->next_index - 1];
  router::ResumeRequest resume{
      .id = call->id, .job = *request.job, .next_index = static_cast<int32_t>(call->next_index)};
  if (sim_.KeptChance(50)) {
    if (call->next_index == request.tokens) call->text_at = request.text_bytes;
    resume.text_bytes = static_cast<int64_t>(call->text_at);
  }
  sim_.Trace("client: ", call->id.ToHex(), " resumes ", resume.job.ToHex(), " at ", router.name(), " from ",
             resume.next_index);
  ++sim_.counts.resumed;
  router.FromClient([call, resume, &router](router::Dispatcher& dispatcher) {
    if (call->cancelled()) return router::WriteFailed(Left(), *call);
    router.kept().Resume(resume, call, dispatcher);
  });
}

void KeptClients::Leave(const CallPtr& call) {
  if (!calls_.contains(call->id)) return;
  sim_.Trace("client: leaves ", call->id.ToHex());
  call->is_left = true;
  Close(*call);
  const auto leave = [call](router::Dispatcher& dispatcher) {
    if (!call->router.kept().Leave(call->id, Left())) dispatcher.CancelJob(call->id, Left());
  };
  call->router.FromClient(leave);
  if (sim_.Twice()) call->router.FromClient(leave);
  ComeBackAfterBreak(call->request);
}

void KeptClients::Close(Call& call) {
  if (call.was_accepted && call.job.has_value()) jobs_.at(*call.job).followed = sim_.queue.Now();
  --call.request.open;
  --open_;
  calls_.erase(call.id);
}

void KeptClients::ComeBackAfterBreak(Request& request) {
  if (request.returns_left == 0 || sim_.KeptChance(kNeverPercent)) return;
  --request.returns_left;
  const int64_t kind = sim_.KeptBetween(0, 99);
  const int64_t most_ms = kind < 50 ? 100 : kind < 90 ? 1'500 : setup_.live.unfollowed_ms + 1'000;
  ComeAt(request, sim_.queue.Now() + sim_.KeptBetween(0, most_ms) * kNsPerMs);
}

void KeptClients::ComeBackAfterEnd(Request& request, bool well) {
  if (request.returns_left == 0 || !sim_.KeptChance(well ? 20 : 50)) return;
  --request.returns_left;
  const int64_t most_ms = well ? setup_.live.retention_ms * 5 / 4 : 500;
  ComeAt(request, sim_.queue.Now() + sim_.KeptBetween(0, most_ms) * kNsPerMs);
}

KeptClients::Work KeptClients::OnSubmitted(const router::JobSpec& spec, const RouterNode& router) {
  Request& request = *owners_.at(spec.id);
  Job& job = jobs_[spec.id];
  if (job.runs) Wrong(request, "its job is begun while it runs");
  const router::JobSpec& asked = *request.kept.job;
  if (spec.prompt != asked.prompt || spec.sampling != asked.sampling || spec.tenant != asked.tenant ||
      spec.want_kv_digest != asked.want_kv_digest || spec.deadline != kNever) {
    Wrong(request, "its job is another than it asked for");
  }
  if (!spec.is_recovered) CheckKey(request, router);
  if (router.journal_disk().HasResult(spec.id)) Wrong(request, "is computed anew though the journal has its result");
  spec.is_recovered ? ++sim_.counts.recovered : ++sim_.counts.kept;
  const bool had_failed = HasFailed(job, router);
  job = {.request = &request,
         .router = &router,
         .runs = true,
         .had_failed = had_failed,
         .began = sim_.queue.Now(),
         .followed = sim_.queue.Now()};
  return {.computed = request.computed, .is_cut = request.oracle.is_cut};
}

void KeptClients::OnRouterGone(const RouterNode* router) {
  for (auto& [id, job] : jobs_) {
    if (job.router == router) job.runs = false;
  }
  std::vector<CallPtr> broken;
  for (const auto& [id, call] : calls_) {
    if (&call->router == router) broken.push_back(call);
  }
  for (const CallPtr& call : broken) {
    call->is_left = true;
    Close(*call);
    ComeBackAfterBreak(call->request);
  }
}

std::string KeptClients::Open() const {
  std::string open;
  for (const Request& request : requests_) {
    if (request.open > 0) absl::StrAppend(&open, " kept ", request.kept.job->id.ToHex(), " after ", request.tokens);
  }
  return open;
}

}  // namespace baton::simulator
