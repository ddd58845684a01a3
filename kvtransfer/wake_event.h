// What a transfer thread sleeps on: an eventfd that any thread may write, together with a backend's own descriptors.
#ifndef BATON_KVTRANSFER_WAKE_EVENT_H_
#define BATON_KVTRANSFER_WAKE_EVENT_H_

#include <cstdint>

#include "absl/types/span.h"

namespace baton::kvtransfer {

inline constexpr int kMaxWaitDescriptors = 4;

class WakeEvent {
 public:
  WakeEvent();
  ~WakeEvent();
  WakeEvent(const WakeEvent&) = delete;
  WakeEvent& operator=(const WakeEvent&) = delete;

  // Any thread. Ends the Wait that is running, or the next one.
  void Wake();

  // Blocks until Wake, until one of `descriptors` (at most kMaxWaitDescriptors) is readable, or for `timeout_ns`.
  void Wait(absl::Span<const int> descriptors, int64_t timeout_ns);

 private:
  int fd_ = -1;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_WAKE_EVENT_H_
