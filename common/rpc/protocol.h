// The version of the protocol that the processes of one cluster speak to each other (proto/baton/internal/v1).
#ifndef BATON_COMMON_RPC_PROTOCOL_H_
#define BATON_COMMON_RPC_PROTOCOL_H_

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

namespace baton::rpc {

// Rises with every change that a process of the former version would misread. Processes of different versions refuse
// each other. 0: a process that states none.
inline constexpr uint32_t kProtocolVersion = 3;

// The worker knows JobParams.emitted: it goes on with a job whose first outputs came from other workers.
inline constexpr uint64_t kFeatureResume = 1;

// The router takes WorkerMessage.blocks.
inline constexpr uint64_t kFeatureBlockReports = 2;

// The worker knows RouterMessage.hand_overs: it hands a running sequence over.
inline constexpr uint64_t kFeatureHandOver = 4;

// The worker knows RouterMessage.drain: it drains when an operator orders it.
inline constexpr uint64_t kFeatureDrainOrder = 8;

// The worker shows a capability when it fetches, and demands one of its readers where the router says so.
inline constexpr uint64_t kFeatureCapabilities = 16;

// The router takes BlockReport.other_routers_blocks.
inline constexpr uint64_t kFeatureOtherRouters = 32;

// The worker knows Sampling.logit_bias.
inline constexpr uint64_t kFeatureLogitBias = 64;

// The worker knows Sampling.grammar.
inline constexpr uint64_t kFeatureGrammar = 128;

// The worker knows Sampling.prompt_logprobs.
inline constexpr uint64_t kFeaturePromptLogprobs = 256;

// The worker knows Sampling.pooling.
inline constexpr uint64_t kFeatureEmbeddings = 512;

// Additions that a peer may do without, one bit each. A process states those that it knows, and ignores bits that it
// does not know.
inline constexpr uint64_t kProtocolFeatures =
    kFeatureResume | kFeatureBlockReports | kFeatureHandOver | kFeatureDrainOrder | kFeatureCapabilities |
    kFeatureOtherRouters | kFeatureLogitBias | kFeatureGrammar | kFeaturePromptLogprobs | kFeatureEmbeddings;

// FAILED_PRECONDITION, with what to do about it, unless `peer` ("worker", "router") states kProtocolVersion.
absl::Status CheckProtocolVersion(std::string_view peer, uint32_t stated);

}  // namespace baton::rpc

#endif  // BATON_COMMON_RPC_PROTOCOL_H_
