#include "kvtransfer/peer_cache.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/status.h"

namespace baton::kvtransfer {

absl::StatusOr<PeerId> PeerCache::Acquire(FetchStreamId stream, const std::string& address) {
  BATON_CHECK(!by_stream_.contains(stream)) << stream;
  auto known = by_address_.find(address);
  if (known == by_address_.end()) {
    BATON_ASSIGN_OR_RETURN(const PeerId peer, transport_.Connect(address));
    peers_[peer].address = address;
    known = by_address_.emplace(address, peer).first;
  }
  ++peers_.at(known->second).users;
  by_stream_[stream] = known->second;
  return known->second;
}

void PeerCache::Release(FetchStreamId stream) {
  const auto it = by_stream_.find(stream);
  if (it == by_stream_.end()) return;
  const PeerId id = it->second;
  by_stream_.erase(it);
  const auto found = peers_.find(id);
  if (found == peers_.end() || --found->second.users > 0) return;
  found->second.idle_since = clock_.Now();
  if (found->second.lost) Disconnect(id);
}

void PeerCache::MarkLost(PeerId peer) {
  const auto it = peers_.find(peer);
  if (it == peers_.end() || it->second.lost) return;
  it->second.lost = true;
  by_address_.erase(it->second.address);
  if (it->second.users == 0) Disconnect(peer);
}

void PeerCache::MarkLostOf(FetchStreamId stream) {
  const auto it = by_stream_.find(stream);
  if (it != by_stream_.end()) MarkLost(it->second);
}

void PeerCache::Trim() {
  const TimeNs now = clock_.Now();
  std::vector<std::pair<TimeNs, PeerId>> idle;
  for (const auto& [id, peer] : peers_) {
    if (peer.users == 0) idle.emplace_back(peer.idle_since, id);
  }
  std::sort(idle.begin(), idle.end());
  size_t left = idle.size();
  for (const auto& [since, id] : idle) {
    if (left <= kMaxIdlePeers && now - since < kIdlePeerNs) return;
    Disconnect(id);
    --left;
  }
}

void PeerCache::DisconnectAll() {
  while (!peers_.empty()) Disconnect(peers_.begin()->first);
}

void PeerCache::Disconnect(PeerId id) {
  const auto it = peers_.find(id);
  if (!it->second.lost) by_address_.erase(it->second.address);
  peers_.erase(it);
  transport_.Disconnect(id);
}

}  // namespace baton::kvtransfer
