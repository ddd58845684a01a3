// The serving worker's end of the hand-off: who may compute, who may read, and when a block may be used again. In the
// hand-off of a prompt that is the prefill worker. Events in, actions out. Used by one thread, the engine's loop.
//
//   state       | event                       | next        | actions
//   ------------+-----------------------------+-------------+---------------------------------------------------------
//   -           | OnPrefill                   | kUnlicensed | (holds nothing; a timer ends it)
//   -           | OnPrefill(solo)             | kLicensed   | GrantLicence
//   -           | OnFetchOpen                 | kParked     | (a timer ends it)
//   -           | OnCancel                    | tombstone   | (what it is for may still be on its way)
//   kUnlicensed | OnFetchOpen                 | kLicensed   | Reply(FetchAccepted), GrantLicence
//   kUnlicensed | timer, deadline, OnCancel   | tombstone   | Revoke
//   kParked     | OnPrefill                   | kLicensed   | Reply(FetchAccepted), GrantLicence
//   kParked     | OnPrefill that is refused   | tombstone   | CloseStream(the refusal)
//   kParked     | OnPrefill, other reader     | kUnlicensed | CloseStream(PERMISSION_DENIED)
//   kParked     | timer                       | tombstone   | CloseStream(NOT_FOUND)
//   kParked     | OnFetchRelease, OnCancel    | tombstone   | CloseStream
//   kParked     | OnFetchClosed               | tombstone   |
//   kLicensed   | OnBlocksBegun               | kLicensed   | Reply(BlocksBegun), to a reader that takes them
//   kLicensed   | OnBlocksComputed            | kLicensed   | Reply(BlocksReady)
//   kLicensed   | OnPromptFinished            | kServing    | Reply(FetchComplete)
//   kLicensed   | OnPromptFinished, solo      | tombstone   | ReleaseBlocks
//   kLicensed   | OnPromptFinished, the       | tombstone   | CloseStream(INVALID_ARGUMENT), ReleaseBlocks
//               | reader's first block is     |             |
//               | beyond the prompt           |             |
//   kLicensed   | OnFetchRelease              | tombstone   | CloseStream(OK), Revoke, ReleaseBlocks
//   kServing    | OnFetchRelease              | tombstone   | CloseStream(OK), ReleaseBlocks
//   kLicensed,  | OnCancel, OnFailed,         | kDraining   | Revoke when licensed; renewals are answered no more
//   kServing    | deadline                    |             |
//   kDraining   | the reader cannot be        | tombstone   | CloseStream(why it ended), ReleaseBlocks
//               | reading any more            |             |
//   kDraining   | OnFetchRelease              | tombstone   | CloseStream(why it ended), ReleaseBlocks
//   kLicensed,  | OnFetchClosed               | kQuarantine | Revoke when licensed
//   kServing,   | lease over                  | kQuarantine | Revoke when licensed, CloseStream(UNAVAILABLE; when
//   kDraining   |                             |             | draining, why it ended)
//   kQuarantine | lease + grace over, or the  | tombstone   | ReleaseBlocks
//               | reader cannot be reading    |             |
//               | any more                    |             |
//   parked,     | OnFetchRenew                | the same    | Reply(FetchRenewed)
//   licensed,   |                             |             |
//   serving     |                             |             |
//   any with a  | OnFetchOpen of the same job | the same    | CloseStream(ALREADY_EXISTS; solo FAILED_PRECONDITION;
//   reader      | on another stream           |             | quarantined CANCELLED)
//   any with a  | OnFetchOpen, other reader   | the same    | CloseStream(PERMISSION_DENIED)
//   Prefill     |                             |             |
//   any         | a second FetchOpen on the   | as if       | CloseStream(INVALID_ARGUMENT)
//               | same stream                 | closed      |
//   tombstone   | any                         | tombstone   | the late message is answered at once: CANCELLED
//
// Another reader is one whom CheckReader (reader_rules.h) refuses. That no attempt is served twice, and so no
// capability used twice, is this table's doing.
//
// A job that would become kDraining or kQuarantine becomes a tombstone at once, with ReleaseBlocks (and CloseStream, if
// the stream lives), when its reader cannot be reading. BlockAccess knows that: over a network this process serves the
// reads and stops, over shared memory a process that has ended reads no more, but a paused one may. As long as no block
// was announced to the reader, it cannot be reading either. Otherwise the source asks again every lost_reader_check_ms.
//
// A lease is a duration on this process's clock, counted from the last message that prolonged it: the open, or a
// renewal that was answered. Blocks under a reader that may be reading are given up only by its release, or lease plus
// grace after that message.
// Digests catch what slips through.
#ifndef BATON_KVTRANSFER_KV_SOURCE_H_
#define BATON_KVTRANSFER_KV_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "common/clock.h"
#include "common/ids.h"
#include "kvtransfer/block_access.h"
#include "kvtransfer/fetch_messages.h"
#include "kvtransfer/reader_rules.h"

namespace baton::kvtransfer {

struct KvSourceOptions {
  Incarnation incarnation;
  std::string fingerprint;
  std::string transport_address;
  uint64_t block_bytes = 0;
  // A shorter lease is extended to min_lease_ms. One beyond max_lease_ms is refused: the reader would count on all of
  // it.
  int64_t min_lease_ms = 200;
  int64_t max_lease_ms = 30'000;
  int64_t grace_ms = 250;
  // A Fetch waits this long for its Prefill, and a Prefill this long for its Fetch.
  int64_t parked_ms = 1'000;
  // How often a source asks whether a lost reader may still be reading.
  int64_t lost_reader_check_ms = 100;
  int64_t unlicensed_ms = 10'000;
  // Bounds of the tombstones. When there are too many, the oldest are dropped first. Each is kept until its job's
  // deadline, but at most for max_tombstone_ms and at least for parked_ms.
  int32_t max_tombstones = 4096;
  int64_t max_tombstone_ms = 60'000;
  int32_t max_parked = 256;
};

// The worker's loop may now reserve blocks and compute the prompt.
struct GrantLicence {
  JobKey key;
  int32_t first_block = 0;
};
// The worker's loop drops the prompt at the next chunk edge and ends the Prefill call with `status`. A licensed job
// keeps its blocks until ReleaseBlocks, which follows at once or later. An unlicensed job holds no blocks and is over.
struct Revoke {
  JobKey key;
  absl::Status status;
};
// No reader is left: the worker's loop may give the blocks up (its prefix cache may keep them). Sent once for every
// GrantLicence.
struct ReleaseBlocks {
  JobKey key;
};
struct SendReply {
  FetchStreamId stream = 0;
  FetchReply reply;
};
struct CloseStream {
  FetchStreamId stream = 0;
  absl::Status status;
};
using SourceAction = std::variant<GrantLicence, Revoke, ReleaseBlocks, SendReply, CloseStream>;

class KvSource {
 public:
  // `clock` and `access` outlive the source.
  KvSource(KvSourceOptions options, const Clock& clock, BlockAccess& access);
  ~KvSource();

  // A Prefill came from the router. ALREADY_EXISTS for a job that is there, CANCELLED for a tombstone,
  // RESOURCE_EXHAUSTED beyond kMaxPendingJobs, FAILED_PRECONDITION for a solo job that has a reader: then there is no
  // new job. `solo`: no reader will come (one output token).
  absl::Status OnPrefill(const JobKey& key, const ReaderRules& rules, TimeNs deadline, bool solo);
  void OnFetchOpen(FetchStreamId stream, const FetchOpen& open);
  void OnFetchRenew(FetchStreamId stream, const FetchRenew& renew);
  void OnFetchRelease(FetchStreamId stream);
  // The stream ended without a release: cut, or the reader is gone.
  void OnFetchClosed(FetchStreamId stream);
  // The first layers of a chunk are done, or the chunk is. The reader is not told of blocks before its first one.
  void OnBlocksBegun(const JobKey& key, BlocksBegun blocks);
  void OnBlocksComputed(const JobKey& key, BlocksReady blocks);
  void OnPromptFinished(const JobKey& key, const FetchComplete& complete);
  // The worker cannot go on with the job.
  void OnFailed(const JobKey& key, const absl::Status& status);
  // The router cancelled, or its call was cut.
  void OnCancel(const JobKey& key, const absl::Status& why);
  void OnTimer();

  // When OnTimer next has something to do. kNever when no timer runs.
  TimeNs NextTimer() const;
  // Actions since the last call, in order. The caller carries out all of them.
  std::vector<SourceAction> TakeActions();

  // Jobs that are licensed and not yet released.
  int32_t open_jobs() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_KV_SOURCE_H_
