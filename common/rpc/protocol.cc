#include "common/rpc/protocol.h"

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "common/version.h"

namespace baton::rpc {

absl::Status CheckProtocolVersion(std::string_view peer, uint32_t stated) {
  if (stated == kProtocolVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the ", ToAbsl(peer), " speaks protocol version ", stated,
                                                    ", this process (baton ", kVersion, ") version ", kProtocolVersion,
                                                    ": start router and workers from the same release"));
}

}  // namespace baton::rpc
