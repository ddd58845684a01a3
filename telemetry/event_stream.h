// The writing end of a stream of server-sent events to one viewer.
#ifndef BATON_TELEMETRY_EVENT_STREAM_H_
#define BATON_TELEMETRY_EVENT_STREAM_H_

#include <string>
#include <string_view>

namespace baton::telemetry {

// Thread-safe.
class EventStream {
 public:
  virtual ~EventStream() = default;

  // Sends text as it is: one or several whole events (FormatEvent). False when the stream is closed, or when this text
  // would exceed what the viewer may leave unread, which closes the stream. Never blocks.
  virtual bool Write(std::string text) = 0;
  // The viewer has left, was too slow, or the server has stopped. It stays closed.
  virtual bool closed() const = 0;
  // The connection ends as soon as what was written has been sent.
  virtual void Close() = 0;
};

// An event of the type `name` (empty: the default type), whose data may have several lines.
std::string FormatEvent(std::string_view name, std::string_view data);

}  // namespace baton::telemetry

#endif  // BATON_TELEMETRY_EVENT_STREAM_H_
