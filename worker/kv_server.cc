#include "worker/kv_server.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "common/check.h"

namespace baton::worker {

KvServer::KvServer(const kvtransfer::KvSourceOptions& options, const Clock& clock, engine::Engine& engine,
                   kvtransfer::FetchReplies& replies, kvtransfer::BlockAccess& access)
    : engine_(engine), source_(options, clock, access), replies_(replies) {}

KvOwner* KvServer::FindOwner(const JobKey& key) const {
  const auto owner =
      std::find_if(owners_.begin(), owners_.end(), [&key](const KvOwner* one) { return one->Serves(key); });
  return owner == owners_.end() ? nullptr : *owner;
}

KvOwner& KvServer::OwnerOf(const JobKey& key) const {
  KvOwner* const owner = FindOwner(key);
  BATON_CHECK(owner != nullptr) << key.ToString();
  return *owner;
}

// A job that was cancelled before it was offered has no owner.
void KvServer::Handle(const kvtransfer::Revoke& action) {
  if (KvOwner* const owner = FindOwner(action.key)) owner->OnRevoke(action.key, action.status);
}

void KvServer::Announce(const JobKey& key, absl::Span<const BlockId> blocks, int32_t begin, int32_t end) {
  if (begin >= end) return;
  const uint64_t block_bytes = engine_.runner().kv_layout().block_bytes();
  const absl::Span<const BlockId> announced =
      blocks.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  const std::vector<Digest128> digests = engine_.BlockDigests(announced);
  kvtransfer::BlocksReady message;
  for (size_t i = 0; i < announced.size(); ++i) {
    message.blocks.push_back({.index = begin + static_cast<int32_t>(i),
                              .offset = static_cast<uint64_t>(announced[i]) * block_bytes,
                              .digest = digests[i]});
  }
  source_.OnBlocksComputed(key, std::move(message));
}

void KvServer::AnnounceBegun(const JobKey& key, const BegunBlocks& begun) {
  const KvLayout& layout = engine_.runner().kv_layout();
  const KvGroups groups = layout.groups();
  const std::vector<uint64_t> bytes = layout.BytesOfLayers(begun.layers);
  const std::vector<uint64_t> bytes_before = layout.BytesOfLayers(begun.layers_before);
  kvtransfer::BlocksBegun message;
  for (int32_t i = begun.begin; i < begun.end; ++i) {
    const size_t group = static_cast<size_t>(groups.GroupOf(i, begun.prompt_tokens));
    if (bytes[group] == bytes_before[group]) continue;
    const uint64_t offset = static_cast<uint64_t>(begun.blocks[static_cast<size_t>(i)]) * layout.block_bytes();
    message.blocks.push_back({.index = i, .offset = offset, .bytes = bytes[group]});
  }
  if (message.blocks.empty()) return;
  source_.OnBlocksBegun(key, std::move(message));
  for (const kvtransfer::SourceAction& action : source_.TakeActions()) {
    const auto* const reply = std::get_if<kvtransfer::SendReply>(&action);
    BATON_CHECK(reply != nullptr) << "something was left to settle before the step";
    Handle(*reply);
  }
}

void KvServer::Settle() {
  for (auto actions = source_.TakeActions(); !actions.empty(); actions = source_.TakeActions()) {
    for (const kvtransfer::SourceAction& action : actions) {
      std::visit([this](const auto& a) { Handle(a); }, action);
    }
    for (KvOwner* const owner : owners_) owner->OnSettled();
  }
}

void KvServer::OnFetchRequest(kvtransfer::FetchStreamId stream, const kvtransfer::FetchRequest& request) {
  if (const auto* open = std::get_if<kvtransfer::FetchOpen>(&request)) {
    source_.OnFetchOpen(stream, *open);
  } else if (const auto* renew = std::get_if<kvtransfer::FetchRenew>(&request)) {
    source_.OnFetchRenew(stream, *renew);
  } else {
    source_.OnFetchRelease(stream);
  }
  Settle();
}

void KvServer::OnFetchClosed(kvtransfer::FetchStreamId stream) {
  source_.OnFetchClosed(stream);
  Settle();
}

void KvServer::OnTimer() {
  source_.OnTimer();
  Settle();
}

}  // namespace baton::worker
