// Parses server-sent events as the OpenAI API streams them: lines of `data: ...`, in whatever pieces the network
// delivers.
#ifndef BATON_BENCH_LOAD_SSE_PARSER_H_
#define BATON_BENCH_LOAD_SSE_PARSER_H_

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace baton::bench {

inline constexpr size_t kMaxSseLineBytes = 4u << 20;

class SseParser {
 public:
  // Calls `on_data` with the value of each `data` line that `bytes` complete. Skips other fields and comments.
  // RESOURCE_EXHAUSTED for a line longer than kMaxSseLineBytes.
  absl::Status Feed(std::string_view bytes, const std::function<void(std::string_view)>& on_data);

 private:
  std::string line_;
};

}  // namespace baton::bench

#endif  // BATON_BENCH_LOAD_SSE_PARSER_H_
