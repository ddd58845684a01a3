// Serves KV blocks of a worker's engine to readers: joins kvtransfer::KvSource, which knows licences and leases, to the
// blocks and to whoever owns them. Any phase may be the owner. Free of I/O; a policy on the engine's loop.
#ifndef BATON_WORKER_KV_SERVER_H_
#define BATON_WORKER_KV_SERVER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/clock.h"
#include "common/ids.h"
#include "engine/engine.h"
#include "engine/engine_loop.h"
#include "kvtransfer/block_access.h"
#include "kvtransfer/fetch_messages.h"
#include "kvtransfer/fetch_replies.h"
#include "kvtransfer/kv_source.h"

namespace baton::worker {

// How far a step that still runs is with a prompt.
struct BegunBlocks {
  // The blocks of the whole prompt that are handed over, and those of them, [begin, end), that will be announced when
  // the step has ended.
  absl::Span<const BlockId> blocks;
  int32_t begin = 0;
  int32_t end = 0;
  int64_t prompt_tokens = 0;
  // The first layers of the model, whose KV is in place, and those of which the reader was told before.
  int32_t layers = 0;
  int32_t layers_before = 0;
};

// The phase whose blocks are served. Called on the loop, by KvServer::Settle.
class KvOwner {
 public:
  virtual ~KvOwner() = default;
  // Whether the job is one that this phase has offered and that is not over yet.
  virtual bool Serves(const JobKey& key) const = 0;
  // An offered job has its reader, or needs none. Blocks of the prompt before `first_block` are at the reader already.
  virtual void OnLicence(const JobKey& key, int32_t first_block) = 0;
  // The job ends with `why`. A licensed job keeps its blocks until OnRelease; one without a licence is over.
  virtual void OnRevoke(const JobKey& key, const absl::Status& why) = 0;
  // No reader is left: the blocks may be given up. Once for every OnLicence.
  virtual void OnRelease(const JobKey& key) = 0;
  // Some of the calls above are done. Further ones may follow, when this one causes them.
  virtual void OnSettled() = 0;
};

class KvServer final : public engine::PhasePolicy {
 public:
  // All references outlive the server.
  KvServer(const kvtransfer::KvSourceOptions& options, const Clock& clock, engine::Engine& engine,
           kvtransfer::FetchReplies& replies, kvtransfer::BlockAccess& access);

  // Before the first job. The owner outlives the server's last call.
  void AddOwner(KvOwner& owner) { owners_.push_back(&owner); }
  bool has_owner() const { return !owners_.empty(); }

  // The owner's calls, as in KvSource. What they cause happens in Settle, which the owner calls when it is done.
  absl::Status Offer(const JobKey& key, const kvtransfer::ReaderRules& rules, TimeNs deadline, bool solo) {
    return source_.OnPrefill(key, rules, deadline, solo);
  }
  void Cancel(const JobKey& key, const absl::Status& why) { source_.OnCancel(key, why); }
  void Fail(const JobKey& key, const absl::Status& status) { source_.OnFailed(key, status); }
  // Blocks [begin, end) of the prompt's `blocks` hold what the reader is to get, and stay as they are until OnRelease:
  // the digests are taken now.
  void Announce(const JobKey& key, absl::Span<const BlockId> blocks, int32_t begin, int32_t end);
  // Tells the reader at once of what it may read already. Called while a step runs, and calls no owner.
  void AnnounceBegun(const JobKey& key, const BegunBlocks& begun);
  void Complete(const JobKey& key, const kvtransfer::FetchComplete& complete) {
    source_.OnPromptFinished(key, complete);
  }
  // Carries out what has been caused, until nothing is left.
  void Settle();

  // What the Fetch streams say. Called on the loop.
  void OnFetchRequest(kvtransfer::FetchStreamId stream, const kvtransfer::FetchRequest& request);
  void OnFetchClosed(kvtransfer::FetchStreamId stream);

  bool OnStepEvent(const engine::StepEvent&) override { return false; }
  void OnTimer() override;
  TimeNs NextTimer() const override { return source_.NextTimer(); }

  // Licensed jobs that are not released.
  int32_t open_jobs() const { return source_.open_jobs(); }

 private:
  void Handle(const kvtransfer::GrantLicence& action) { OwnerOf(action.key).OnLicence(action.key, action.first_block); }
  void Handle(const kvtransfer::Revoke& action);
  void Handle(const kvtransfer::ReleaseBlocks& action) { OwnerOf(action.key).OnRelease(action.key); }
  void Handle(const kvtransfer::SendReply& action) { replies_.Reply(action.stream, action.reply); }
  void Handle(const kvtransfer::CloseStream& action) { replies_.Close(action.stream, action.status); }

  // Null for a job that no owner serves.
  KvOwner* FindOwner(const JobKey& key) const;
  KvOwner& OwnerOf(const JobKey& key) const;

  engine::Engine& engine_;
  kvtransfer::KvSource source_;
  kvtransfer::FetchReplies& replies_;
  std::vector<KvOwner*> owners_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_KV_SERVER_H_
