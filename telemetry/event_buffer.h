// The bytes between the writers of an event stream and the connection that sends them.
#ifndef BATON_TELEMETRY_EVENT_BUFFER_H_
#define BATON_TELEMETRY_EVENT_BUFFER_H_

#include <cstddef>
#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "telemetry/event_stream.h"

namespace baton::telemetry {

// | state | becomes it by | Write | the connection |
// |---|---|---|---|
// | open | creation | keeps the text | sends |
// | ending | Close | refuses | sends what is left, then ends |
// | broken | Break; a Write beyond the bound | refuses | ends at once |
//
// Thread-safe. Writers may keep it when the connection and its server are gone.
class EventBuffer final : public EventStream {
 public:
  // `wake` tells the connection that Take or state has something new. It is called from any thread, under a lock, once
  // until the next Take and once more when a Write breaks the stream, and never after Break.
  EventBuffer(size_t max_unread_bytes, std::function<void()> wake);

  bool Write(std::string text) override ABSL_LOCKS_EXCLUDED(mutex_);
  bool closed() const override ABSL_LOCKS_EXCLUDED(mutex_);
  void Close() override ABSL_LOCKS_EXCLUDED(mutex_);

  // What follows is for the connection.
  enum class State { kOpen, kEnding, kBroken };
  State state() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns all text that waits. It counts as unread until Sent.
  std::string Take() ABSL_LOCKS_EXCLUDED(mutex_);
  void Sent(size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  void Break() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Wake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t max_unread_bytes_;
  mutable absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kOpen;
  std::function<void()> wake_ ABSL_GUARDED_BY(mutex_);
  bool is_woken_ ABSL_GUARDED_BY(mutex_) = false;
  std::string waiting_ ABSL_GUARDED_BY(mutex_);
  size_t unread_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace baton::telemetry

#endif  // BATON_TELEMETRY_EVENT_BUFFER_H_
