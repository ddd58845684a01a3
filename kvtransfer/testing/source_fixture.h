// The source's state machine over blocks that only say what is asked of them.
#ifndef BATON_KVTRANSFER_TESTING_SOURCE_FIXTURE_H_
#define BATON_KVTRANSFER_TESTING_SOURCE_FIXTURE_H_

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kvtransfer/kv_source.h"
#include "kvtransfer/testing/describe_handoff.h"
#include "kvtransfer/testing/fake_block_access.h"

namespace baton::kvtransfer {

inline constexpr int64_t kLeaseMs = 1'000;

inline KvSourceOptions SourceOptions() {
  KvSourceOptions options;
  options.incarnation = kSourceIncarnation;
  options.fingerprint = "weights-1";
  options.transport_address = "address";
  options.block_bytes = 64;
  options.max_tombstones = 8;
  options.max_parked = 3;
  return options;
}

// Job 1, and stream 10 of its reader.
class KvSourceTest : public testing::Test {
 protected:
  std::string Actions() { return DescribeAll(source_.TakeActions()); }
  std::string AfterMs(int64_t ms) {
    clock_.AdvanceMs(ms);
    source_.OnTimer();
    return Actions();
  }
  absl::Status Prefill(uint64_t job, bool solo = false, TimeNs deadline = kNever) {
    return source_.OnPrefill(KeyOf(job), {.secret = SecretOf(KeyOf(job))}, deadline, solo);
  }
  FetchOpen OpenOf(uint64_t job, int32_t first_block = 0) {
    return {.key = KeyOf(job),
            .secret = SecretOf(KeyOf(job)),
            .source = kSourceIncarnation,
            .fingerprint = "weights-1",
            .first_block = first_block,
            .lease_ms = kLeaseMs};
  }
  void Open(uint64_t job, FetchStreamId stream, int32_t first_block = 0) {
    source_.OnFetchOpen(stream, OpenOf(job, first_block));
  }
  void Compute(uint64_t job, std::vector<int32_t> indices) {
    BlocksReady ready;
    for (int32_t index : indices)
      ready.blocks.push_back({.index = index, .offset = 64u * static_cast<uint64_t>(index)});
    source_.OnBlocksComputed(KeyOf(job), ready);
  }
  void Complete(uint64_t job, int32_t blocks) {
    source_.OnPromptFinished(KeyOf(job), {.block_count = blocks, .first = {.token = 5}});
  }
  // Job 1 with its reader, nothing announced.
  void License(TimeNs deadline = kNever) {
    ASSERT_TRUE(Prefill(1, false, deadline).ok());
    Open(1, 10);
    ASSERT_EQ(Actions(), "Reply(10,Accepted) Grant(1,0)");
  }
  void LicenseAndAnnounce(TimeNs deadline = kNever) {
    License(deadline);
    Compute(1, {0});
    ASSERT_EQ(Actions(), "Reply(10,Ready:0)");
  }
  void Serve(TimeNs deadline = kNever) {
    LicenseAndAnnounce(deadline);
    Complete(1, 1);
    ASSERT_EQ(Actions(), "Reply(10,Complete1)");
  }
  void Drain() {
    LicenseAndAnnounce();
    source_.OnCancel(KeyOf(1), absl::AbortedError("the router"));
    ASSERT_EQ(Actions(), "Revoke(1,ABORTED)");
  }
  void ExpectOver() {
    EXPECT_EQ(source_.open_jobs(), 0);
    EXPECT_EQ(source_.NextTimer(), kNever);
    EXPECT_EQ(Prefill(1).code(), absl::StatusCode::kCancelled);
    Open(1, 99);
    EXPECT_EQ(Actions(), "Close(99,CANCELLED)");
  }

  ManualClock clock_;
  FakeBlockAccess access_;
  KvSource source_{SourceOptions(), clock_, access_};
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TESTING_SOURCE_FIXTURE_H_
