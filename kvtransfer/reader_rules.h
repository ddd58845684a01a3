// By what a source knows the reader of an attempt: the attempt's secret and, where the router demands one, a
// capability.
#ifndef BATON_KVTRANSFER_READER_RULES_H_
#define BATON_KVTRANSFER_READER_RULES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/capability.h"
#include "common/ids.h"
#include "kvtransfer/fetch_messages.h"

namespace baton::kvtransfer {

// What the source was told of an attempt.
struct ReaderRules {
  Id128 secret;
  // Whom a capability has to name; without it the secret is enough.
  std::optional<ExpectedReader> reader = {};
  // The attempt's, which the capability has to name as well.
  std::string tenant = {};
};

// What a reader shows.
struct ReaderProof {
  Id128 secret;
  absl::StatusOr<CapabilityTerms> terms = FetchOpen().terms;
  // The first block that it asks for.
  int32_t first_block = 0;
};

// PERMISSION_DENIED unless the proof has the attempt's secret and, where one is demanded, a capability of this attempt,
// this source and its membership, the expected reader and the tenant, which begins with the first block or before it.
absl::Status CheckReader(const JobKey& key, const Incarnation& source, const ReaderRules& rules,
                         const ReaderProof& proof);

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_READER_RULES_H_
