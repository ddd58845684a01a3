// What the two ends of a hand-off say to each other on one Fetch stream (baton.internal.v1.KvService), as plain data.
//
//   reader (decode worker)                          source (prefill worker)
//   FetchOpen           ------------------------->  licence to compute
//                       <-------------------------  FetchAccepted
//                       <-------------------------  BlocksBegun, while a chunk is computed layer by layer, to a reader
//                                                   that takes them
//                       <-------------------------  BlocksReady, after each chunk
//   FetchRenew          <------------------------>  FetchRenewed, for as long as the stream lives
//                       <-------------------------  FetchComplete, with token 0
//   FetchRelease        ------------------------->  no read is in flight and none will start: the blocks are free
//
// A prompt's blocks are those that KvGroups (common/kv_layout.h) hands over, counted in its order.
#ifndef BATON_KVTRANSFER_FETCH_MESSAGES_H_
#define BATON_KVTRANSFER_FETCH_MESSAGES_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/capability.h"
#include "common/digest.h"
#include "common/ids.h"
#include "common/kv_layout.h"
#include "common/output_token.h"

namespace baton::kvtransfer {

// Where a reader runs. What is not known is empty or 0.
struct ReaderProcess {
  // Equal in processes that can share memory: HostIdentity (transport_address.h).
  std::string host;
  // Numbers of processes mean the same in one namespace alone.
  std::string pid_namespace;
  int32_t pid = 0;
};

struct FetchOpen {
  JobKey key;
  // What the router gave both workers of the attempt: it proves that the reader is the one that was named.
  Id128 secret;
  // The process that the router named. Another process at the same address refuses.
  Incarnation source;
  std::string fingerprint;
  // Index within the prompt of the first block that the reader does not hold.
  int32_t first_block = 0;
  // How long the source keeps blocks after it last heard from the reader.
  int64_t lease_ms = 0;
  // Tells the source when the reader cannot be reading any more.
  ReaderProcess reader = {};
  // The router's Capability, serialized, as the reader shows it; empty where the router gave none.
  std::string capability = {};
  // What it says, once the source has verified its signatures; else why it counts for nothing.
  absl::StatusOr<CapabilityTerms> terms = absl::NotFoundError("it shows no capability");
  // Whether the reader knows BlocksBegun. Readers of older versions do not.
  bool takes_begun = false;
};

struct FetchAccepted {
  // For Transport::Connect.
  std::string transport_address;
  // The length of every block. All blocks of the prompt lie in one region.
  uint64_t block_bytes = 0;
};

struct BlockReady {
  // The block's place within the prompt.
  int32_t index = 0;
  // Where the block begins in the source's region.
  uint64_t offset = 0;
  Digest128 digest = {};
};

struct BlocksReady {
  std::vector<BlockReady> blocks;
};

// The first layers of a block are in place, and it has no digest yet.
struct BlockBegun {
  int32_t index = 0;
  uint64_t offset = 0;
  // How many bytes at the block's beginning will not change any more: more than were named before, at most all.
  uint64_t bytes = 0;
};

// What a reader may read before the whole blocks are ready. BlocksReady names each of these blocks, at the same offset,
// and its digest is that of the whole block.
struct BlocksBegun {
  std::vector<BlockBegun> blocks;
};

struct FetchRenew {
  uint64_t sequence = 0;
};

struct FetchRenewed {
  uint64_t sequence = 0;
};

struct FetchComplete {
  // Blocks of the whole prompt.
  int32_t block_count = 0;
  // Output 0 of the job, as the prefill worker sampled it. When it is the last, there is nothing to fetch.
  OutputToken first = {};
};

struct FetchRelease {};

using FetchRequest = std::variant<FetchOpen, FetchRenew, FetchRelease>;
using FetchReply = std::variant<FetchAccepted, BlocksBegun, BlocksReady, FetchRenewed, FetchComplete>;

// Names one Fetch stream within a process; never reused.
using FetchStreamId = uint64_t;

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_FETCH_MESSAGES_H_
