#include "worker/transfer_fetcher.h"

#include <utility>

#include "common/test_delay.h"

namespace baton::worker {

TransferFetcher::TransferFetcher(kvtransfer::Transport& transport, const kvtransfer::KvSinkOptions& options,
                                 const Clock& clock, const KvPool& pool, Observers observers)
    : observers_(std::move(observers)),
      thread_(transport, options, clock, pool,
              {.committed =
                   [this](const kvtransfer::Committed& done) {
                     TestDelay("transfer");
                     observers_.committed(done);
                     core_->loop().PostWhenRoom([core = core_, done] { core->receiver().OnCommitted(done); });
                   },
               .failed =
                   [this](const kvtransfer::FetchFailed& failed) {
                     observers_.failed(failed);
                     core_->loop().PostWhenRoom([core = core_, failed] { core->receiver().OnFetchFailed(failed); });
                   }}) {}

void TransferFetcher::Launch(WorkerCore& core, rpc::Credentials* credentials) {
  core_ = &core;
  streams_ = std::make_unique<kvtransfer::FetchClient>(
      kvtransfer::FetchClient::Events{
          .on_reply = [this](kvtransfer::FetchStreamId stream,
                             const kvtransfer::FetchReply& reply) { thread_.OnReply(stream, reply); },
          .on_closed = [this](kvtransfer::FetchStreamId stream,
                              const absl::Status& status) { thread_.OnStreamClosed(stream, status); }},
      credentials);
  thread_.Launch(*streams_);
}

void TransferFetcher::Stop() {
  thread_.Stop();
  streams_.reset();
}

}  // namespace baton::worker
