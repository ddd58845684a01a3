#include "bench/load/sse_parser.h"

#include "absl/strings/str_cat.h"

namespace baton::bench {
namespace {

constexpr std::string_view kData = "data:";

}  // namespace

absl::Status SseParser::Feed(std::string_view bytes, const std::function<void(std::string_view)>& on_data) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    line_.append(bytes.substr(0, end));
    if (line_.size() > kMaxSseLineBytes) {
      return absl::ResourceExhaustedError(absl::StrCat("an event is longer than ", kMaxSseLineBytes, " bytes"));
    }
    if (end == std::string_view::npos) break;
    bytes.remove_prefix(end + 1);
    std::string_view line = line_;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with(kData)) {
      line.remove_prefix(kData.size());
      if (line.starts_with(' ')) line.remove_prefix(1);
      on_data(line);
    }
    line_.clear();
  }
  return absl::OkStatus();
}

}  // namespace baton::bench
