#include "telemetry/host_lookup.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::telemetry {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

constexpr int64_t kLookupLongMs = 20'000;

// A lookup that takes until the test lets it go on.
struct SlowLookup {
  absl::Notification may_go_on;
  std::atomic<int> lookups = 0;
};

HostLookup::Function Slow(const std::shared_ptr<SlowLookup>& slow) {
  return [slow](const std::string& host) -> HostLookup::Addresses {
    ++slow->lookups;
    slow->may_go_on.WaitForNotification();
    return std::vector<std::string>{"192.0.2.1"};
  };
}

TEST(HostLookup, LiteralAddressesNeedNoLookup) {
  const auto slow = std::make_shared<SlowLookup>();
  HostLookup lookup(Slow(slow));
  EXPECT_THAT(*lookup.Find("127.0.0.1", 0), ElementsAre("127.0.0.1"));
  EXPECT_THAT(*lookup.Find("2001:db8::1", 0), ElementsAre("2001:db8::1"));
  EXPECT_EQ(slow->lookups, 0);
}

TEST(HostLookup, TheSystemKnowsLocalhost) {
  EXPECT_THAT(*HostLookup().Find("localhost", kLookupLongMs), Contains("127.0.0.1"));
  const HostLookup::Addresses unknown = HostLookup().Find("no.such.host.invalid", kLookupLongMs);
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kUnavailable);
}

TEST(HostLookup, OneThatHangsCostsItsTimeoutAndTheNextCallWaitsForIt) {
  const auto slow = std::make_shared<SlowLookup>();
  HostLookup lookup(Slow(slow));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(lookup.Find("collector", 10).status().code(), absl::StatusCode::kDeadlineExceeded);
  }
  slow->may_go_on.Notify();
  EXPECT_THAT(*lookup.Find("collector", kLookupLongMs), ElementsAre("192.0.2.1"));
  // The last call may have found the first lookup done, and then begun another one.
  EXPECT_LE(slow->lookups, 2);
}

TEST(HostLookup, CancelEndsACallThatWaitsAndEachLaterOne) {
  const auto slow = std::make_shared<SlowLookup>();
  auto lookup = std::make_unique<HostLookup>(Slow(slow));
  absl::Status status;
  std::thread waiting([&] { status = lookup->Find("collector", 600'000).status(); });
  while (slow->lookups == 0) std::this_thread::yield();
  lookup->Cancel();
  waiting.join();
  EXPECT_TRUE(absl::IsCancelled(status));
  EXPECT_TRUE(absl::IsCancelled(lookup->Find("collector", 600'000).status()));
  // Whoever looked up is left behind, and may come back when nobody is there any more.
  lookup.reset();
  slow->may_go_on.Notify();
}

}  // namespace
}  // namespace baton::telemetry
