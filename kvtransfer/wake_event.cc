#include "kvtransfer/wake_event.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "common/check.h"
#include "common/clock.h"

namespace baton::kvtransfer {

WakeEvent::WakeEvent() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  // The process has run out of descriptors while it starts: it could not serve.
  BATON_CHECK(fd_ >= 0) << "eventfd failed: raise the open-file limit";
}

WakeEvent::~WakeEvent() { close(fd_); }

void WakeEvent::Wake() {
  const uint64_t one = 1;
  // The write fails only when the counter is full, and then the descriptor is readable anyway.
  [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof(one));
}

void WakeEvent::Wait(absl::Span<const int> descriptors, int64_t timeout_ns) {
  BATON_CHECK(descriptors.size() <= kMaxWaitDescriptors);
  std::array<pollfd, kMaxWaitDescriptors + 1> fds;
  fds[0] = {.fd = fd_, .events = POLLIN, .revents = 0};
  for (size_t i = 0; i < descriptors.size(); ++i) fds[i + 1] = {.fd = descriptors[i], .events = POLLIN, .revents = 0};
  const int64_t bounded_ns = std::max<int64_t>(timeout_ns, 0);
  const timespec timeout = {.tv_sec = bounded_ns / kNsPerSecond, .tv_nsec = bounded_ns % kNsPerSecond};
  ppoll(fds.data(), descriptors.size() + 1, &timeout, nullptr);
  if (fds[0].revents != 0) {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = read(fd_, &count, sizeof(count));
  }
}

}  // namespace baton::kvtransfer
