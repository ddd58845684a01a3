// The one logger of a process writes to stderr, a line for each message; stdout is for the command's output. Text lines
// are `time level role message`, the time with its offset from UTC. JSON lines have the keys time (RFC 3339, UTC),
// level, role and message. A line that belongs to a traced request also has its trace_id (common/log_trace.h). For
// lines that may repeat without bound see common/log_limit.h.
#ifndef BATON_COMMON_LOG_H_
#define BATON_COMMON_LOG_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "spdlog/formatter.h"
#include "spdlog/spdlog.h"

namespace baton {

enum class LogFormat : uint8_t { kText, kJson };

// Call it once, before the first thread. `role` names the process in each line; `level` is trace|debug|info|warn|error.
void InitLogging(std::string_view role, std::string_view level, LogFormat format = LogFormat::kText);

// What makes lines of messages.
std::unique_ptr<spdlog::formatter> MakeLogFormatter(std::string_view role, LogFormat format);

}  // namespace baton

#endif  // BATON_COMMON_LOG_H_
