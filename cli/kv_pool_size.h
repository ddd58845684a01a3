// How large a worker's KV pool is: as --kv-memory says, or what --gpu-memory-utilization leaves of a device's memory.
#ifndef BATON_CLI_KV_POOL_SIZE_H_
#define BATON_CLI_KV_POOL_SIZE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "cli/model_device.h"
#include "cli/options.h"
#include "engine/model_runner.h"

namespace baton::cli {

struct KvPoolSize {
  int32_t blocks = 0;
  // One line for the log about what decided; empty where the user did, or the CPU computes.
  std::string why;
};

// `runner` holds all that it takes of `device` but the pool, and `sharing` workers of one supervisor, this one among
// them, divide the device. A device has room for `beside_pool_bytes` behind the pool. INVALID_ARGUMENT where the
// pool would hold no sequence, RESOURCE_EXHAUSTED where others hold what the share promises; both say what to do.
absl::StatusOr<KvPoolSize> ChooseKvPoolSize(const EngineFlags& flags, const ModelDevice& device, int sharing,
                                            uint64_t beside_pool_bytes, const engine::ModelRunner& runner);

}  // namespace baton::cli

#endif  // BATON_CLI_KV_POOL_SIZE_H_
