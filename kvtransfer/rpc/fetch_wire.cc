#include "kvtransfer/rpc/fetch_wire.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/limits.h"
#include "common/rpc/wire.h"
#include "common/status.h"

namespace baton::kvtransfer {
namespace pb = internal::v1;
namespace {

void Fill(const FetchOpen& open, pb::FetchRequest& proto) {
  pb::FetchOpen* message = proto.mutable_open();
  rpc::ToProto(open.key, message->mutable_key());
  message->set_source_incarnation(open.source.ToHex());
  message->set_fingerprint(open.fingerprint);
  message->set_first_block(open.first_block);
  message->set_lease_ms(open.lease_ms);
  message->set_secret(rpc::ToBytes(open.secret));
  message->set_reader_host(open.reader.host);
  message->set_reader_pid_namespace(open.reader.pid_namespace);
  message->set_reader_pid(open.reader.pid);
  message->set_capability(open.capability);
  message->set_takes_begun(open.takes_begun);
}
void Fill(const FetchRenew& renew, pb::FetchRequest& proto) { proto.mutable_renew()->set_sequence(renew.sequence); }
void Fill(const FetchRelease&, pb::FetchRequest& proto) { proto.mutable_release(); }

void Fill(const FetchAccepted& accepted, pb::FetchResponse& proto) {
  proto.mutable_accepted()->set_transport_address(accepted.transport_address);
  proto.mutable_accepted()->set_block_bytes(accepted.block_bytes);
}
void Fill(const BlocksBegun& begun, pb::FetchResponse& proto) {
  pb::BlocksBegun* const list = proto.mutable_blocks_begun();
  for (const BlockBegun& block : begun.blocks) {
    pb::BlockBegun* message = list->add_blocks();
    message->set_index(block.index);
    message->set_offset(block.offset);
    message->set_bytes(block.bytes);
  }
}
void Fill(const BlocksReady& ready, pb::FetchResponse& proto) {
  pb::BlocksReady* const list = proto.mutable_blocks_ready();
  for (const BlockReady& block : ready.blocks) {
    pb::BlockReady* message = list->add_blocks();
    message->set_index(block.index);
    message->set_offset(block.offset);
    message->set_digest_high(block.digest.high);
    message->set_digest_low(block.digest.low);
  }
}
void Fill(const FetchRenewed& renewed, pb::FetchResponse& proto) {
  proto.mutable_renewed()->set_sequence(renewed.sequence);
}
void Fill(const FetchComplete& complete, pb::FetchResponse& proto) {
  pb::FetchComplete* message = proto.mutable_complete();
  message->set_block_count(complete.block_count);
  rpc::ToProto(complete.first, message->mutable_first());
}

// Longer than any name of a host or a namespace. Waiting Fetches keep these strings.
constexpr size_t kMaxReaderNameBytes = 256;

absl::StatusOr<FetchRequest> ReadOpen(const pb::FetchOpen& proto) {
  FetchOpen open;
  BATON_ASSIGN_OR_RETURN(open.key, rpc::FromProto(proto.key()));
  BATON_ASSIGN_OR_RETURN(open.source, Id128::FromHex(proto.source_incarnation()));
  open.fingerprint = proto.fingerprint();
  open.first_block = proto.first_block();
  open.lease_ms = proto.lease_ms();
  BATON_ASSIGN_OR_RETURN(open.secret, rpc::FromBytes(proto.secret()));
  if (proto.reader_host().size() > kMaxReaderNameBytes || proto.reader_pid_namespace().size() > kMaxReaderNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat("names of a reader have at most ", kMaxReaderNameBytes, " bytes"));
  }
  if (proto.capability().size() > kMaxCapabilityBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a capability has at most ", kMaxCapabilityBytes, " bytes"));
  }
  open.capability = proto.capability();
  open.takes_begun = proto.takes_begun();
  open.reader = {.host = proto.reader_host(), .pid_namespace = proto.reader_pid_namespace(), .pid = proto.reader_pid()};
  return open;
}

absl::StatusOr<FetchReply> ReadComplete(const pb::FetchComplete& proto) {
  FetchComplete complete{.block_count = proto.block_count()};
  BATON_ASSIGN_OR_RETURN(complete.first, rpc::FromProto(proto.first()));
  return complete;
}

}  // namespace

pb::FetchRequest ToProto(const FetchRequest& request) {
  pb::FetchRequest proto;
  std::visit([&](const auto& message) { Fill(message, proto); }, request);
  return proto;
}

pb::FetchResponse ToProto(const FetchReply& reply) {
  pb::FetchResponse proto;
  std::visit([&](const auto& message) { Fill(message, proto); }, reply);
  return proto;
}

absl::StatusOr<FetchRequest> FromProto(const pb::FetchRequest& proto) {
  switch (proto.message_case()) {
    case pb::FetchRequest::kOpen:
      return ReadOpen(proto.open());
    case pb::FetchRequest::kRenew:
      return FetchRenew{proto.renew().sequence()};
    case pb::FetchRequest::kRelease:
      return FetchRelease{};
    case pb::FetchRequest::MESSAGE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("a Fetch request without content");
}

absl::StatusOr<FetchReply> FromProto(const pb::FetchResponse& proto) {
  switch (proto.message_case()) {
    case pb::FetchResponse::kAccepted:
      return FetchAccepted{proto.accepted().transport_address(), proto.accepted().block_bytes()};
    case pb::FetchResponse::kBlocksBegun: {
      BlocksBegun begun;
      for (const pb::BlockBegun& block : proto.blocks_begun().blocks()) {
        begun.blocks.push_back({.index = block.index(), .offset = block.offset(), .bytes = block.bytes()});
      }
      return begun;
    }
    case pb::FetchResponse::kBlocksReady: {
      BlocksReady ready;
      for (const pb::BlockReady& block : proto.blocks_ready().blocks()) {
        ready.blocks.push_back({.index = block.index(),
                                .offset = block.offset(),
                                .digest = {.high = block.digest_high(), .low = block.digest_low()}});
      }
      return ready;
    }
    case pb::FetchResponse::kRenewed:
      return FetchRenewed{proto.renewed().sequence()};
    case pb::FetchResponse::kComplete:
      return ReadComplete(proto.complete());
    case pb::FetchResponse::MESSAGE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("a Fetch response without content");
}

}  // namespace baton::kvtransfer
