#include "common/log.h"

#include <string>

#include "spdlog/sinks/stdout_sinks.h"

namespace baton {

void InitLogging(std::string_view role, std::string_view level) {
  auto logger = spdlog::stderr_logger_mt("baton");
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ " + std::string(role) + " %v");
  logger->set_level(spdlog::level::from_str(std::string(level)));
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace baton
