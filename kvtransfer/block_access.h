// What a KvSource needs to know about the ways in which readers reach its blocks.
#ifndef BATON_KVTRANSFER_BLOCK_ACCESS_H_
#define BATON_KVTRANSFER_BLOCK_ACCESS_H_

#include "absl/types/span.h"
#include "common/ids.h"
#include "kvtransfer/fetch_messages.h"
#include "kvtransfer/read_grants.h"

namespace baton::kvtransfer {

// Called by the source's thread; must not block.
class BlockAccess {
 public:
  virtual ~BlockAccess() = default;
  // The reader that knows `fetch`, the attempt's secret, may read these bytes too.
  virtual void Allow(const Id128& fetch, absl::Span<const RegionRange> ranges) = 0;
  // The reader may read nothing more. Returns true when it cannot be reading any more either: then the blocks may
  // change at once. May be asked again.
  virtual bool Stop(const Id128& fetch, const ReaderProcess& reader) = 0;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_BLOCK_ACCESS_H_
