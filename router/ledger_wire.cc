#include "router/ledger_wire.h"

namespace baton::router {
namespace {

const char* HoldName(BlockHold hold) {
  switch (hold) {
    case BlockHold::kPulling:
      return "pulling";
    case BlockHold::kQuarantined:
      return "quarantined";
    case BlockHold::kPrefilling:
      return "prefilling";
    case BlockHold::kDecoding:
      return "decoding";
    case BlockHold::kPreempted:
      return "preempted";
    case BlockHold::kForReader:
      return "for_reader";
    case BlockHold::kEnded:
      return "ended";
    case BlockHold::kUnowned:
      break;
  }
  return "unowned";
}

const char* VerdictName(HolderVerdict verdict) {
  switch (verdict) {
    case HolderVerdict::kCalled:
      return "called";
    case HolderVerdict::kRead:
      return "read";
    case HolderVerdict::kEnding:
      return "ending";
    case HolderVerdict::kOrphan:
      break;
  }
  return "orphan";
}

// Lists at most `room` holders, and lowers it by as many.
void FillHolders(const WorkerBlocks& blocks, int32_t& room, v1::WorkerLedger* proto) {
  for (const bool orphans : {true, false}) {
    for (const LedgerEntry& entry : blocks.entries) {
      if ((entry.verdict == HolderVerdict::kOrphan) != orphans) continue;
      if (room == 0) {
        proto->set_omitted_holders(proto->omitted_holders() + 1);
        continue;
      }
      --room;
      const BlockHolder& holder = entry.holder;
      v1::LedgerHolder* one = proto->add_holders();
      one->set_job(holder.key.job.ToHex());
      one->set_attempt(holder.key.attempt);
      one->set_choice(holder.key.choice);
      one->set_hold(HoldName(holder.hold));
      one->set_blocks(holder.blocks);
      one->set_own_blocks(holder.own_blocks);
      one->set_held_ms(holder.held_ms);
      one->set_verdict(VerdictName(entry.verdict));
    }
  }
}

}  // namespace

void FillLedger(const Dispatcher& dispatcher, TimeNs now, int32_t max_holders, v1::GetLedgerResponse* response) {
  int32_t room = max_holders;
  response->set_open_calls(dispatcher.open_calls());
  response->set_orphan_after_ms(kOrphanAfterMs);
  for (const auto& [id, worker] : dispatcher.registry().workers()) {
    v1::WorkerLedger* proto = response->add_workers();
    proto->set_pid(worker.info.pid);
    proto->set_role(RoleName(worker.info.role));
    proto->set_address(worker.info.target);
    proto->set_total_blocks(worker.info.total_blocks);
    const auto assigned = dispatcher.assigned().find(id);
    proto->set_open_calls(assigned == dispatcher.assigned().end() ? 0 : assigned->second.jobs);
    const WorkerBlocks* blocks = dispatcher.block_ledger().Find(id);
    if (blocks == nullptr) continue;
    proto->set_reported(true);
    proto->set_report_age_ms((now - blocks->reported_at) / kNsPerMs);
    proto->set_free_blocks(blocks->free_blocks);
    proto->set_cached_blocks(blocks->cached_blocks);
    proto->set_other_routers_blocks(blocks->other_routers_blocks);
    proto->set_unaccounted_blocks(blocks->unaccounted_blocks);
    proto->set_orphaned_blocks(blocks->orphaned_blocks);
    response->set_orphaned_blocks(response->orphaned_blocks() + blocks->orphaned_blocks);
    if (blocks->has_orphans()) response->set_workers_with_orphans(response->workers_with_orphans() + 1);
    FillHolders(*blocks, room, proto);
  }
}

}  // namespace baton::router
