// The sink alone, its actions as text: "Read(1,77:0+64)". Streams are numbered from 1 in the order of Start, as are
// reads.
#ifndef BATON_KVTRANSFER_TESTING_SINK_FIXTURE_H_
#define BATON_KVTRANSFER_TESTING_SINK_FIXTURE_H_

#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/limits.h"
#include "gtest/gtest.h"
#include "kvtransfer/kv_sink.h"
#include "kvtransfer/testing/describe_handoff.h"

namespace baton::kvtransfer {

inline constexpr uint64_t kBlockBytes = 64;
inline constexpr PeerId kPeer = 77;

inline KvSinkOptions SinkOptions() {
  KvSinkOptions options;
  options.lease_ms = 4'000;
  options.renew_ms = 500;
  options.max_blocks_per_read = 2;
  options.max_reads_per_peer = 2;
  options.max_rereads = 1;
  return options;
}

inline uint8_t ByteOf(uint64_t job, int32_t index) {
  return static_cast<uint8_t>(16 * job + static_cast<uint64_t>(index) + 1);
}

class KvSinkTest : public testing::Test {
 protected:
  std::string Actions() { return DescribeAll(sink_.TakeActions()); }
  std::string AfterMs(int64_t ms) {
    clock_.AdvanceMs(ms);
    sink_.OnTimer();
    return Actions();
  }
  static FetchSpec SpecOf(uint64_t job, std::vector<BlockId> blocks) {
    FetchSpec spec;
    spec.key = KeyOf(job);
    spec.secret = SecretOf(spec.key);
    spec.source_target = "prefill:1";
    spec.source = kSourceIncarnation;
    spec.fingerprint = "weights-1";
    spec.blocks = std::move(blocks);
    return spec;
  }
  void Start(uint64_t job, std::vector<BlockId> blocks, int32_t first_block = 0, TimeNs deadline = kNever) {
    FetchSpec spec = SpecOf(job, std::move(blocks));
    spec.deadline = deadline;
    spec.first_block = first_block;
    blocks_[job] = spec.blocks;
    sink_.Start(spec);
  }
  void Accept(FetchStreamId stream) { sink_.OnReply(stream, FetchAccepted{"address", kBlockBytes}); }
  // Started, accepted and connected; stream `job`.
  void Pull(uint64_t job, std::vector<BlockId> blocks, int32_t first_block = 0, TimeNs deadline = kNever) {
    Start(job, std::move(blocks), first_block, deadline);
    Accept(job);
    sink_.OnConnected(job, kPeer);
    const std::string name = std::to_string(job);
    ASSERT_EQ(Actions(), "Open(" + name + ") Connect(" + name + ",address)");
  }
  BlockReady ReadyOf(uint64_t job, int32_t index, uint64_t offset) {
    const std::vector<uint8_t> bytes(kBlockBytes, ByteOf(job, index));
    return {.index = index, .offset = offset, .digest = DigestBytes(bytes.data(), bytes.size())};
  }
  // Block i lies in the source's block 10 + i.
  void Ready(uint64_t job, std::vector<int32_t> indices) {
    BlocksReady ready;
    for (int32_t index : indices) {
      ready.blocks.push_back(ReadyOf(job, index, kBlockBytes * (10 + static_cast<uint64_t>(index))));
    }
    sink_.OnReply(job, ready);
  }
  // What the transport would have copied.
  void Fill(uint64_t job, std::vector<int32_t> indices) {
    for (int32_t index : indices) {
      const auto block = static_cast<size_t>(blocks_.at(job)[static_cast<size_t>(index)]);
      std::memset(memory_.data() + block * kBlockBytes, ByteOf(job, index), kBlockBytes);
    }
  }
  void Complete(uint64_t job, int32_t blocks, FinishReason finish = FinishReason::kNone) {
    sink_.OnReply(job, FetchComplete{.block_count = blocks, .first = {.token = 5, .finish = finish}});
  }
  // Job 1 of one block with read 1 in flight.
  void PullOneBlock(TimeNs deadline = kNever) {
    Pull(1, {3}, 0, deadline);
    Ready(1, {0});
    ASSERT_EQ(Actions(), "Read(1,#1,640>192+64)");
  }
  // Job 1 of two blocks gets a reply that breaks the rules.
  void ExpectBroken(const FetchReply& reply, const std::string& code = "INTERNAL") {
    Pull(++last_job_, {1, 2, 3}, 1);
    const std::string name = std::to_string(last_job_);
    sink_.OnReply(last_job_, reply);
    EXPECT_EQ(Actions(), "Send(" + name + ",Release) Fail(" + name + "," + code + ") Finish(" + name + ")");
    EXPECT_EQ(sink_.open_jobs(), 0);
  }

  ManualClock clock_;
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(kBlockBytes * 32);
  HostKvPool pool_{absl::MakeSpan(memory_), kBlockBytes};
  KvSink sink_{SinkOptions(), clock_, pool_};
  std::map<uint64_t, std::vector<BlockId>> blocks_;
  uint64_t last_job_ = 0;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TESTING_SINK_FIXTURE_H_
