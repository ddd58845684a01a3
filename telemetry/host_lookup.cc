#include "telemetry/host_lookup.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace baton::telemetry {
namespace {

HostLookup::Addresses AskSystem(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found)) {
    return absl::UnavailableError(absl::StrCat(host, ": ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  std::vector<std::string> addresses;
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (getnameinfo(address->ai_addr, address->ai_addrlen, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0) {
      addresses.emplace_back(text.data());
    }
  }
  return addresses;
}

bool IsLiteralAddress(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), address.data()) == 1;
}

}  // namespace

// Shared with the thread of a lookup, which may outlive the object that began it.
struct HostLookup::State {
  absl::Mutex mutex;
  bool is_running ABSL_GUARDED_BY(mutex) = false;
  bool is_cancelled ABSL_GUARDED_BY(mutex) = false;
  Addresses addresses ABSL_GUARDED_BY(mutex) = absl::UnavailableError("no lookup yet");
};

HostLookup::HostLookup(Function look_up)
    : look_up_(look_up == nullptr ? AskSystem : std::move(look_up)), state_(std::make_shared<State>()) {}

HostLookup::Addresses HostLookup::Find(const std::string& host, int64_t timeout_ms) {
  if (IsLiteralAddress(host)) return std::vector<std::string>{host};
  State& state = *state_;
  const absl::MutexLock lock(&state.mutex);
  if (state.is_cancelled) return absl::CancelledError("the process ends");
  if (!std::exchange(state.is_running, true)) {
    std::thread([shared = state_, look_up = look_up_, host] {
      Addresses addresses = look_up(host);
      const absl::MutexLock thread_lock(&shared->mutex);
      shared->addresses = std::move(addresses);
      shared->is_running = false;
    }).detach();
  }
  const auto is_over = [&state]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex) {
    return !state.is_running || state.is_cancelled;
  };
  const bool in_time = state.mutex.AwaitWithTimeout(absl::Condition(&is_over), absl::Milliseconds(timeout_ms));
  if (state.is_cancelled) return absl::CancelledError("the process ends");
  if (!in_time) return absl::DeadlineExceededError(absl::StrCat(host, ": its name was not resolved in time"));
  return state.addresses;
}

void HostLookup::Cancel() {
  const absl::MutexLock lock(&state_->mutex);
  state_->is_cancelled = true;
}

}  // namespace baton::telemetry
