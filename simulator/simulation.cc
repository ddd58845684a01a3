#include "simulator/simulation.h"

namespace baton::simulator {
namespace {

// The others feel a worker's death for this long.
constexpr int64_t kLongestTroubleNs = 15 * kNsPerSecond;

constexpr NamedCount kCounts[] = {{&Counts::ok, "ended well"},
                                  {&Counts::cancelled, "cancelled"},
                                  {&Counts::deadline, "past their deadline"},
                                  {&Counts::failed, "lost to a fault"},
                                  {&Counts::tokens, "tokens"},
                                  {&Counts::retries, "retries"},
                                  {&Counts::preemptions, "preemptions"},
                                  {&Counts::steps_ahead, "steps ahead"},
                                  {&Counts::prefix_hits, "prefix hits"},
                                  {&Counts::grammar_waits, "waits for a grammar"},
                                  {&Counts::unread, "clients that do not read for a while"},
                                  {&Counts::prompts, "prompts with log-probabilities"},
                                  {&Counts::reads, "reads"},
                                  {&Counts::early, "hand-offs that began within a step"},
                                  {&Counts::local, "local prefills"},
                                  {&Counts::cut_streams, "cut streams"},
                                  {&Counts::crashes, "crashes of workers"},
                                  {&Counts::router_crashes, "of routers"},
                                  {&Counts::pauses, "pauses of workers"},
                                  {&Counts::router_pauses, "of routers"},
                                  {&Counts::silences, "silences"},
                                  {&Counts::partitions, "half-open links"},
                                  {&Counts::drains, "drains"},
                                  {&Counts::moves, "hand-overs of running jobs"},
                                  {&Counts::moved, "of them in place"},
                                  {&Counts::stalls, "stalled engines"},
                                  {&Counts::given_up, "memberships given up"},
                                  {&Counts::rejoins, "rejoins"},
                                  {&Counts::block_reports, "reports of blocks"},
                                  {&Counts::several_routers, "runs with several routers"},
                                  {&Counts::others_blocks, "reports with blocks of other routers"},
                                  {&Counts::ordered_drains, "drains ordered at a router"},
                                  {&Counts::kept, "kept jobs"},
                                  {&Counts::recovered, "taken up again"},
                                  {&Counts::resumed, "resumed streams"},
                                  {&Counts::joined, "calls that followed a key"},
                                  {&Counts::full_disks, "full disks"},
                                  {&Counts::unwritten, "calls that could not be kept"},
                                  {&Counts::unfollowed, "jobs that nobody followed"},
                                  {&Counts::forgotten, "calls for a forgotten job"},
                                  {&Counts::events, "events"}};

}  // namespace

absl::Span<const NamedCount> NamedCounts() { return kCounts; }

void Counts::Add(const Counts& other) {
  for (const NamedCount& count : kCounts) this->*count.value += other.*count.value;
}

std::string Counts::ToString() const {
  std::string text;
  for (const NamedCount& count : kCounts) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", this->*count.value, " ", count.name);
  }
  return text;
}

void Simulation::Acquire(const JobKey& key, Hold hold) {
  Hold& held = holds_[key];
  if (held == Hold::kDecodeBlocks && hold == Hold::kPullSlot && finds_kv_.contains(key)) held = Hold::kPrefillBlocks;
  const int step = static_cast<int>(hold) - static_cast<int>(held);
  // A prompt may need several reads.
  if (step != 1 && !(step == 0 && hold == Hold::kPullSlot)) {
    Fail(absl::StrCat("job ", key.ToString(), " acquires ", static_cast<int>(hold), " after ", static_cast<int>(held),
                      ": out of order"));
  }
  held = hold;
}

const PairCut* Simulation::FindCut(const std::string& source, const std::string& reader) const {
  const auto it = std::find_if(weather.cuts.begin(), weather.cuts.end(), [&](const PairCut& cut) {
    return cut.until > queue.Now() && cut.source == source && cut.reader == reader;
  });
  return it == weather.cuts.end() ? nullptr : &*it;
}

void Simulation::Troubled(const Incarnation& worker, TimeNs end) {
  troubles_.emplace(worker, Trouble{.begin = queue.Now(), .end = end});
}

void Simulation::Recovered(const Incarnation& worker) {
  const auto [begin, end] = troubles_.equal_range(worker);
  for (auto it = begin; it != end; ++it) it->second.end = std::min(it->second.end, queue.Now());
}

bool Simulation::WasTroubled(const Incarnation& worker, TimeNs since) const {
  const auto [begin, end] = troubles_.equal_range(worker);
  return std::any_of(begin, end, [since](const auto& entry) { return entry.second.end >= since; });
}

TimeNs Simulation::RouterAwaySince(int router, TimeNs time) const {
  TimeNs since = time;
  const auto [begin, end] = troubles_.equal_range(RouterName(router));
  for (auto it = begin; it != end; ++it) {
    if (it->second.end >= time) since = std::min(since, it->second.begin);
  }
  return since;
}

bool Simulation::AnyoneWasTroubled(TimeNs since) const {
  return std::any_of(troubles_.begin(), troubles_.end(), [since](const auto& entry) {
    const Trouble& trouble = entry.second;
    return trouble.end >= since && trouble.begin + kLongestTroubleNs >= since;
  });
}

}  // namespace baton::simulator
