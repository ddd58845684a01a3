// Fetch messages of arbitrary bytes. What is taken for a message must be the same message after another trip.
#include <cstdint>

#include "common/check.h"
#include "kvtransfer/rpc/fetch_wire.h"

namespace {

template <typename Wire>
void Try(const uint8_t* data, size_t bytes) {
  Wire proto;
  if (!proto.ParseFromArray(data, static_cast<int>(bytes))) return;
  const auto message = baton::kvtransfer::FromProto(proto);
  if (!message.ok()) return;
  const Wire sent = baton::kvtransfer::ToProto(*message);
  const auto again = baton::kvtransfer::FromProto(sent);
  BATON_CHECK(again.ok()) << again.status();
  BATON_CHECK(baton::kvtransfer::ToProto(*again).SerializeAsString() == sent.SerializeAsString());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  Try<baton::internal::v1::FetchRequest>(data, bytes);
  Try<baton::internal::v1::FetchResponse>(data, bytes);
  return 0;
}
