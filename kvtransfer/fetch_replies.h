// How a KvSource's replies reach its readers.
#ifndef BATON_KVTRANSFER_FETCH_REPLIES_H_
#define BATON_KVTRANSFER_FETCH_REPLIES_H_

#include "absl/status/status.h"
#include "kvtransfer/fetch_messages.h"

namespace baton::kvtransfer {

// Called by the worker's loop; must not block. Streams that are gone are ignored.
class FetchReplies {
 public:
  virtual ~FetchReplies() = default;
  virtual void Reply(FetchStreamId stream, const FetchReply& reply) = 0;
  virtual void Close(FetchStreamId stream, const absl::Status& status) = 0;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_FETCH_REPLIES_H_
