// How a phase pulls KV blocks into its engine's pool, and hears how each pull ended.
#ifndef BATON_WORKER_KV_FETCHER_H_
#define BATON_WORKER_KV_FETCHER_H_

#include "absl/status/status.h"
#include "common/ids.h"
#include "kvtransfer/kv_sink.h"

namespace baton::worker {

// The transfer thread as the loop sees it. Called on the loop; must not block. Each Start is answered by one call to
// the worker's KvReceiver.
class KvFetcher {
 public:
  virtual ~KvFetcher() = default;
  virtual void Start(const kvtransfer::FetchSpec& spec) = 0;
  virtual void Cancel(const JobKey& key, const absl::Status& why) = 0;
};

// The phase that pulls. Called on the loop.
class KvReceiver {
 public:
  virtual ~KvReceiver() = default;
  virtual void OnCommitted(const kvtransfer::Committed& committed) = 0;
  virtual void OnFetchFailed(const kvtransfer::FetchFailed& failed) = 0;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_KV_FETCHER_H_
