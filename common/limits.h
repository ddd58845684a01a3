// The named bounds of the whole system. Each has a test at the limit and one beyond.
#ifndef BATON_COMMON_LIMITS_H_
#define BATON_COMMON_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace baton {

// A request.
inline constexpr int kMaxMessageBytes = 4 << 20;
inline constexpr size_t kMaxPromptBytes = 1u << 20;
inline constexpr int kMaxChatMessages = 1024;
inline constexpr int kMaxStopStrings = 16;
inline constexpr size_t kMaxStopStringBytes = 256;
inline constexpr int kMaxStopTokenIds = 64;
inline constexpr int kMaxLogprobs = 20;
inline constexpr int kMaxOutputTokens = 1 << 20;
inline constexpr int kMaxTopK = 1 << 20;

// The router.
inline constexpr int kMaxQueuedJobs = 1024;
inline constexpr int kMaxRunningJobs = 4096;
inline constexpr int kMaxWorkers = 1024;
// How much output may wait for a slow reader. Beyond it the job is cancelled.
inline constexpr size_t kMaxUnreadOutputMessages = 4096;

// A worker.
inline constexpr int kMaxSequences = 1024;
inline constexpr int kMaxPendingJobs = 1024;
inline constexpr size_t kMaxMailboxEvents = 1u << 16;

}  // namespace baton

#endif  // BATON_COMMON_LIMITS_H_
