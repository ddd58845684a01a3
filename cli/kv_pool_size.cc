#include "cli/kv_pool_size.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/model_loading.h"
#include "common/status.h"

namespace baton::cli {
namespace {

constexpr uint64_t kMostBlocks = std::numeric_limits<int32_t>::max();

// A block of each group, and one more of each for a sequence that goes on.
uint64_t LeastBlocks(const KvLayout& layout) { return 2 * static_cast<uint64_t>(layout.groups().count()); }

std::string MibText(uint64_t bytes) { return absl::StrFormat("%.1f MiB", Mib(static_cast<int64_t>(bytes))); }

absl::StatusOr<KvPoolSize> SizeOf(const std::string& kv_memory, const KvLayout& layout) {
  const uint64_t blocks = layout.BlocksIn(ParseByteSize(kv_memory));
  if (blocks < LeastBlocks(layout) || blocks > kMostBlocks) {
    return absl::InvalidArgumentError(absl::StrCat("--kv-memory ", kv_memory, " holds ", blocks, " blocks of ",
                                                   layout.block_bytes(), " bytes: give at least ",
                                                   LeastBlocks(layout)));
  }
  return KvPoolSize{.blocks = static_cast<int32_t>(blocks)};
}

// The share of a device's memory that this worker may take, and in words.
struct DeviceShare {
  uint64_t bytes = 0;
  std::string flag;
  std::string words;
};

DeviceShare ShareOf(const EngineFlags& flags, const ModelDevice& device, int sharing,
                    const engine::DeviceMemory& memory) {
  const double share = flags.gpu_memory_utilization.value_or(kGpuMemoryUtilization);
  DeviceShare result;
  result.bytes = static_cast<uint64_t>(static_cast<double>(memory.total) * share / sharing);
  result.flag = absl::StrCat("--gpu-memory-utilization ", share);
  const std::string divided = sharing > 1 ? absl::StrCat(", divided among ", sharing, " workers,") : "";
  result.words = absl::StrCat("of the ", MibText(memory.total), " of ", device.Name(), divided,
                              " it gives this worker ", MibText(result.bytes));
  return result;
}

}  // namespace

absl::StatusOr<KvPoolSize> ChooseKvPoolSize(const EngineFlags& flags, const ModelDevice& device, int sharing,
                                            uint64_t beside_pool_bytes, const engine::ModelRunner& runner) {
  const KvLayout& layout = runner.kv_layout();
  if (!flags.kv_memory.empty()) return SizeOf(flags.kv_memory, layout);
  if (device.plugin == nullptr) return SizeOf(kHostKvMemory, layout);
  BATON_ASSIGN_OR_RETURN(const engine::DeviceMemory memory, device.plugin->memory(runner));
  const DeviceShare share = ShareOf(flags, device, sharing, memory);
  const uint64_t beside = static_cast<uint64_t>(runner.spare_blocks()) * layout.block_bytes() + beside_pool_bytes;
  const uint64_t taken = memory.own + beside;
  const uint64_t left = share.bytes - std::min(taken, share.bytes);
  const std::string why =
      absl::StrCat(share.flag, ": ", share.words, ", of which weights, scratch and driver take ", MibText(taken));
  const uint64_t blocks = std::min(layout.BlocksIn(left), kMostBlocks);
  if (blocks < LeastBlocks(layout)) {
    return absl::InvalidArgumentError(
        absl::StrCat(why, "; the KV pool would have ", blocks, " blocks of ", layout.block_bytes(), " bytes and needs ",
                     LeastBlocks(layout),
                     ": give a larger share, a smaller model, fewer --chunk-tokens, or fewer workers on the device"));
  }
  const uint64_t bytes = blocks * layout.block_bytes();
  if (bytes + beside > memory.free) {
    return absl::ResourceExhaustedError(
        absl::StrCat(why, "; that leaves a KV pool of ", MibText(bytes), ", but ", MibText(memory.free),
                     " are free, because other processes use the device: give a smaller share, or a size by "
                     "--kv-memory"));
  }
  return KvPoolSize{.blocks = static_cast<int32_t>(blocks),
                    .why = absl::StrCat("a KV pool of ", MibText(bytes), ", ", blocks, " blocks, by ", why)};
}

}  // namespace baton::cli
