// The one logger of a process writes lines `time level role message` to stderr, the time with its offset from UTC.
// stdout is for the command's output.
#ifndef BATON_COMMON_LOG_H_
#define BATON_COMMON_LOG_H_

#include <string_view>

#include "spdlog/spdlog.h"

namespace baton {

// Call it once, before the first thread. `role` names the process in each line; `level` is trace|debug|info|warn|error.
void InitLogging(std::string_view role, std::string_view level);

}  // namespace baton

#endif  // BATON_COMMON_LOG_H_
