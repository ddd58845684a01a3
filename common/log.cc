#include "common/log.h"

#include <string>
#include <utility>

#include "absl/time/time.h"
#include "common/log_trace.h"
#include "nlohmann/json.hpp"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/stdout_sinks.h"

namespace baton {
namespace {

void Append(std::string_view text, spdlog::memory_buf_t& line) { line.append(text.data(), text.data() + text.size()); }

// The end of a text line that belongs to a trace.
class TraceIdFlag final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& time, spdlog::memory_buf_t& line) override {
    const Id128 trace_id = LogTrace::current();
    if (!trace_id.is_zero()) Append(" trace_id=" + trace_id.ToHex(), line);
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<TraceIdFlag>(); }
};

class JsonFormatter final : public spdlog::formatter {
 public:
  explicit JsonFormatter(std::string role) : role_(std::move(role)) {}

  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    const spdlog::string_view_t level = spdlog::level::to_string_view(message.level);
    nlohmann::ordered_json object = {
        {"time", absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::FromChrono(message.time), absl::UTCTimeZone())},
        {"level", std::string_view(level.data(), level.size())},
        {"role", role_},
        {"message", std::string_view(message.payload.data(), message.payload.size())},
    };
    const Id128 trace_id = LogTrace::current();
    if (!trace_id.is_zero()) object["trace_id"] = trace_id.ToHex();
    Append(object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n", line);
  }
  std::unique_ptr<formatter> clone() const override { return std::make_unique<JsonFormatter>(role_); }

 private:
  const std::string role_;
};

}  // namespace

std::unique_ptr<spdlog::formatter> MakeLogFormatter(std::string_view role, LogFormat format) {
  if (format == LogFormat::kJson) return std::make_unique<JsonFormatter>(std::string(role));
  auto text = std::make_unique<spdlog::pattern_formatter>();
  text->add_flag<TraceIdFlag>('*').set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ " + std::string(role) + " %v%*");
  return text;
}

void InitLogging(std::string_view role, std::string_view level, LogFormat format) {
  auto logger = spdlog::stderr_logger_mt("baton");
  logger->set_formatter(MakeLogFormatter(role, format));
  logger->set_level(spdlog::level::from_str(std::string(level)));
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace baton
