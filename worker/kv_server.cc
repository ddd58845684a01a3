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
  const uint64_t block_bytes = engine_.runner().kv_layout().block_bytes();
  kvtransfer::BlocksReady message;
  for (int32_t i = begin; i < end; ++i) {
    const BlockId block = blocks[static_cast<size_t>(i)];
    message.blocks.push_back(
        {.index = i, .offset = static_cast<uint64_t>(block) * block_bytes, .digest = engine_.BlockDigest(block)});
  }
  if (!message.blocks.empty()) source_.OnBlocksComputed(key, std::move(message));
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
