// The BlockAccess of a worker's transport: over a network the owner itself serves each read, and can stop; over shared
// memory only the end of the reader's process is proof.
#ifndef BATON_KVTRANSFER_TRANSPORT_ACCESS_H_
#define BATON_KVTRANSFER_TRANSPORT_ACCESS_H_

#include "kvtransfer/block_access.h"
#include "kvtransfer/fetch_messages.h"
#include "kvtransfer/transport.h"

namespace baton::kvtransfer {

// This process, as a reader states it in FetchOpen.
ReaderProcess ThisProcess();

class TransportAccess final : public BlockAccess {
 public:
  // The transport outlives this object.
  explicit TransportAccess(Transport& transport) : transport_(transport), own_(ThisProcess()) {}

  void Allow(const Id128& fetch, absl::Span<const RegionRange> ranges) override;
  bool Stop(const Id128& fetch, const ReaderProcess& reader) override;

 private:
  bool MayMap(const ReaderProcess& reader) const;

  Transport& transport_;
  const ReaderProcess own_;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TRANSPORT_ACCESS_H_
