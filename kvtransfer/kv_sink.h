// The reading worker's end of the hand-off: it pulls the blocks of many jobs in turns, verifies each block and commits
// whole prompts. In the hand-off of a prompt that is the decode worker. Events in, actions out. Used by one thread, the
// transfer thread.
//
//   state    | event                                   | next     | actions
//   ---------+-----------------------------------------+----------+-------------------------------------------------
//   -        | Start                                   | kOpening | OpenStream(FetchOpen)
//   kOpening | OnReply(FetchAccepted)                  | kPulling | ConnectPeer
//   kPulling | OnReply(BlocksBegun or BlocksReady),    | kPulling | StartRead of what may be read and was not
//            | OnConnected, a read slot                |          |
//   kPulling | OnReadDone OK                           | kPulling | more StartRead
//   kPulling | digest differs                          | kPulling | StartRead again, at most max_rereads times a
//            |                                         |          | block, then DATA_LOSS
//   kPulling | all blocks verified and FetchComplete   | done     | SendRequest(FetchRelease), Committed, FinishStream
//   kPulling | FetchComplete that ends the job         | kClosing | nothing more is read; Committed at the end
//   not yet  | Cancel, stream closed, lease over,      | kClosing | (reads in flight go on); FetchFailed at the end
//   closing  | deadline, not connected, read failed,   |          |
//            | digest differs too often, bad reply     |          |
//   kClosing | no read in flight                       | done     | SendRequest(FetchRelease) if the stream lives,
//            |                                         |          | Committed or FetchFailed, FinishStream
//   any      | renew_ms passed and the stream lives    | the same | SendRequest(FetchRenew)
//   not yet  | OnReply(FetchRenewed)                   | the same | the lease counts from when that renewal was sent
//   closing  |                                         |          |
//
// Replies come from another machine: a reply that breaks this table, or that names blocks that were not asked for, ends
// the fetch with INTERNAL.
//
// The lease counts from the moment at which the last renewal that the source confirmed was sent. No read starts in its
// last quarter. The destination blocks belong to the sink from Start until Committed or FetchFailed: nobody else may
// touch or free them. When a job's first token ends it, their content is undefined after Committed.
#ifndef BATON_KVTRANSFER_KV_SINK_H_
#define BATON_KVTRANSFER_KV_SINK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/kv_layout.h"
#include "common/kv_pool.h"
#include "kvtransfer/fetch_messages.h"
#include "kvtransfer/transport.h"

namespace baton::kvtransfer {

struct KvSinkOptions {
  // Much longer than a step of the prefill worker, which answers renewals between its steps.
  int64_t lease_ms = 15'000;
  // Renewals are sent this often.
  int64_t renew_ms = 500;
  // Bounds one read, so that jobs take turns.
  int32_t max_blocks_per_read = 8;
  // Reads in flight from one peer. Peers share no bound: one that has stopped holds up its own jobs alone.
  int32_t max_reads_per_peer = 4;
  int32_t max_rereads = 2;
  // What the source is told of this process.
  ReaderProcess reader = {};
};

// What the decode worker wants fetched.
struct FetchSpec {
  JobKey key;
  // The attempt's, as the router gave them.
  Id128 secret;
  std::string capability = {};
  // The prefill worker's gRPC address, and its incarnation.
  std::string source_target;
  Incarnation source;
  std::string fingerprint;
  TimeNs deadline = kNever;
  // The blocks before this one are in place already.
  int32_t first_block = 0;
  // The index of the output that comes with the prompt.
  int32_t first_output = 0;
  // Destination of every block of the prompt.
  std::vector<BlockId> blocks;
};

struct OpenStream {
  FetchStreamId stream = 0;
  std::string target;
  FetchOpen open;
};
struct SendRequest {
  FetchStreamId stream = 0;
  FetchRequest request;
};
// Nothing more will be sent: half-close the stream and forget it. This is the last action of every stream, also of one
// that the source closed.
struct FinishStream {
  FetchStreamId stream = 0;
};
// The transfer thread connects (or reuses the connection of that address) and answers OnConnected.
struct ConnectPeer {
  FetchStreamId stream = 0;
  std::string address;
};
// Answered by one OnReadDone with the tag.
struct StartRead {
  FetchStreamId stream = 0;
  uint64_t tag = 0;
  PeerId peer = 0;
  // The fetch's secret, by which the owner knows what it granted.
  Id128 fetch;
  std::vector<CopyRange> ranges;
};
struct Committed {
  FetchStreamId stream = 0;
  JobKey key;
  std::string source_target;
  // The connection to the source, if there was one. The transfer thread adds what Transport::PathOf said of it when it
  // was made.
  std::optional<PeerId> peer;
  std::string path;
  OutputToken first;
  // Bytes of the blocks that were fetched and verified.
  int64_t bytes = 0;
  // Those of them of which reads began before their blocks were ready.
  int64_t early_bytes = 0;
  // Time from FetchComplete to the commit: what the transfer adds to the request's latency.
  int64_t tail_ns = 0;
  // Time during which a read of this job was in flight, and time spent on digests of its blocks.
  int64_t read_ns = 0;
  int64_t digest_ns = 0;
  // How often a block differed from its digest and was read again.
  int32_t damaged_blocks = 0;
};
// What a fetch failed of.
enum class FetchFault : uint8_t {
  kSource,  // the source closed the stream, or broke its rules
  kRead,    // no connection, or a read that failed
  kDigest,  // a block stayed damaged
  kLease,   // the source no longer answered
  kOther,   // cancelled, or the deadline passed
};
struct FetchFailed {
  FetchStreamId stream = 0;
  JobKey key;
  absl::Status status;
  // As in Committed.
  std::string source_target = {};
  std::optional<PeerId> peer = std::nullopt;
  std::string path = {};
  FetchFault fault = FetchFault::kOther;
  int32_t damaged_blocks = 0;
};
using SinkAction = std::variant<OpenStream, SendRequest, FinishStream, ConnectPeer, StartRead, Committed, FetchFailed>;

class KvSink {
 public:
  // `pool` is what the blocks of this worker lie in, and outlives the sink, which only takes digests of it.
  KvSink(const KvSinkOptions& options, const Clock& clock, const KvPool& pool);
  ~KvSink();

  // Ends in one Committed or FetchFailed. The key must not be there yet, and the blocks must lie in the pool.
  void Start(const FetchSpec& spec);
  // The job ends as soon as no read of it is in flight. An unknown job is ignored: it ended while the call was on its
  // way.
  void Cancel(const JobKey& key, const absl::Status& why);
  void OnReply(FetchStreamId stream, const FetchReply& reply);
  void OnStreamClosed(FetchStreamId stream, const absl::Status& status);
  void OnConnected(FetchStreamId stream, const absl::StatusOr<PeerId>& peer);
  // The StartRead with this tag has completed, or could not be started.
  void OnReadDone(uint64_t tag, const absl::Status& status);
  void OnTimer();

  TimeNs NextTimer() const;
  std::vector<SinkAction> TakeActions();
  int32_t open_jobs() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_KV_SINK_H_
