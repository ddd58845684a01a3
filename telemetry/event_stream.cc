#include "telemetry/event_stream.h"

#include <algorithm>

namespace baton::telemetry {

std::string FormatEvent(std::string_view name, std::string_view data) {
  std::string event;
  event.reserve(name.size() + data.size() + 32);
  if (!name.empty()) event.append("event: ").append(name).append("\n");
  // Each of CR LF, CR and LF ends a line of the data, which the viewer joins with LF.
  while (true) {
    const size_t end = std::min(data.find_first_of("\r\n"), data.size());
    event.append("data: ").append(data.substr(0, end)).append("\n");
    if (end == data.size()) break;
    data.remove_prefix(end + (data.substr(end, 2) == "\r\n" ? 2 : 1));
  }
  return event.append("\n");
}

}  // namespace baton::telemetry
