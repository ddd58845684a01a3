// The transfer thread's connections: one for each peer address, shared by the fetches that read from it.
#ifndef BATON_KVTRANSFER_PEER_CACHE_H_
#define BATON_KVTRANSFER_PEER_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "kvtransfer/fetch_messages.h"
#include "kvtransfer/transport.h"

namespace baton::kvtransfer {

// How many connections without a fetch are kept for the next fetch, and for how long: a connection by shared memory
// keeps the whole pool of a process alive, even of one that has ended.
inline constexpr size_t kMaxIdlePeers = 64;
inline constexpr int64_t kIdlePeerNs = 5 * kNsPerSecond;

// Used by the transfer thread alone.
class PeerCache {
 public:
  PeerCache(Transport& transport, const Clock& clock) : transport_(transport), clock_(clock) {}

  // Connects, or shares the connection of that address. Called once for each stream.
  absl::StatusOr<PeerId> Acquire(FetchStreamId stream, const std::string& address);
  // Streams without a connection are ignored.
  void Release(FetchStreamId stream);
  // A read found that the peer cannot be reached: the next Acquire of its address connects anew, and the connection
  // ends with its last fetch.
  void MarkLost(PeerId peer);
  // The same for the stream's connection, because the stream broke: its source may have ended.
  void MarkLostOf(FetchStreamId stream);
  // Disconnects idle connections that are too old or too many.
  void Trim();
  // Disconnects all connections, also those in use.
  void DisconnectAll();

  size_t size() const { return peers_.size(); }

 private:
  struct Peer {
    std::string address;
    int32_t users = 0;
    bool lost = false;
    TimeNs idle_since = 0;
  };

  void Disconnect(PeerId id);

  Transport& transport_;
  const Clock& clock_;
  absl::flat_hash_map<PeerId, Peer> peers_;
  // The connections that are not lost, by address.
  absl::flat_hash_map<std::string, PeerId> by_address_;
  absl::flat_hash_map<FetchStreamId, PeerId> by_stream_;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_PEER_CACHE_H_
