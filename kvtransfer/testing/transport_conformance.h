// What every one-sided Transport does, as a suite to instantiate for each backend:
//
//   INSTANTIATE_TEST_SUITE_P(Inproc, TransportConformance, testing::Values(TransportFactory{"inproc", ...}),
//   FactoryName);
//
// Owner and reader live in this process; both are polled by the test's thread unless a test says otherwise.
#ifndef BATON_KVTRANSFER_TESTING_TRANSPORT_CONFORMANCE_H_
#define BATON_KVTRANSFER_TESTING_TRANSPORT_CONFORMANCE_H_

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "common/random.h"
#include "gtest/gtest.h"
#include "kvtransfer/bandwidth_probe.h"
#include "kvtransfer/testing/transport_conformance_fixture.h"
#include "kvtransfer/transport.h"

namespace baton::kvtransfer {

TEST_P(TransportConformance, RegionIsZeroedAlignedAndAllocatedOnce) {
  auto transport = GetParam().make();
  ASSERT_TRUE(transport.ok()) << transport.status();
  EXPECT_EQ((*transport)->Address().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ((*transport)->AllocateRegion(0).status().code(), absl::StatusCode::kInvalidArgument);
  auto region = (*transport)->AllocateRegion(100'001);
  ASSERT_TRUE(region.ok()) << region.status();
  EXPECT_EQ(region->size(), 100'001u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(region->data()) % 4096, 0u);
  EXPECT_TRUE(std::all_of(region->begin(), region->end(), [](uint8_t byte) { return byte == 0; }));
  EXPECT_EQ((*transport)->AllocateRegion(4096).status().code(), absl::StatusCode::kFailedPrecondition);
  const auto address = (*transport)->Address();
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_LE(address->size(), kMaxAddressBytes);
}

TEST_P(TransportConformance, ReadWritesExactlyItsRanges) {
  TransportEnd owner = MakeEnd();
  TransportEnd reader = MakeEnd();
  FillRandom(owner.region, kSeed);
  FillRandom(reader.region, kSeed + 1);
  std::vector<uint8_t> expected(reader.region.begin(), reader.region.end());
  const PeerId peer = ConnectOrDie(reader, owner);
  EXPECT_EQ(reader.transport->PathOf(peer), GetParam().path);

  // Sources anywhere; destinations in slots of their own, at odd offsets.
  SeededRandom random(kSeed + 2);
  constexpr size_t kSlotBytes = 8192;
  std::vector<CopyRange> ranges;
  for (size_t slot = 0; slot + kSlotBytes <= kRegionBytes; slot += kSlotBytes) {
    CopyRange range;
    range.bytes = random.Below(kSlotBytes / 2);
    range.local_offset = slot + random.Below(kSlotBytes / 2);
    range.remote_offset = random.Below(kRegionBytes - range.bytes);
    ranges.push_back(range);
    std::copy_n(owner.region.begin() + range.remote_offset, range.bytes, expected.begin() + range.local_offset);
  }
  EXPECT_EQ(Await(reader, Start(reader, peer, ranges), {&owner}), absl::OkStatus());
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), reader.region.begin()));
  EXPECT_EQ(reader.completions.size(), 1u);
}

TEST_P(TransportConformance, AdjacentRangesAndWholeRegionArrive) {
  TransportEnd owner = MakeEnd();
  TransportEnd reader = MakeEnd();
  FillRandom(owner.region, kSeed);
  const PeerId peer = ConnectOrDie(reader, owner);
  std::vector<CopyRange> ranges;
  constexpr size_t kPart = kRegionBytes / 64;
  for (size_t offset = 0; offset < kRegionBytes; offset += kPart) ranges.push_back({offset, offset, kPart});
  EXPECT_EQ(Await(reader, Start(reader, peer, ranges), {&owner}), absl::OkStatus());
  EXPECT_TRUE(std::equal(owner.region.begin(), owner.region.end(), reader.region.begin()));
}

TEST_P(TransportConformance, MostRangesOfOneRead) {
  TransportEnd owner = MakeEnd();
  TransportEnd reader = MakeEnd();
  FillRandom(owner.region, kSeed);
  const PeerId peer = ConnectOrDie(reader, owner);
  // Mirrored, so that nothing coalesces.
  std::vector<CopyRange> ranges;
  for (size_t i = 0; i < kMaxRangesPerRead; ++i) ranges.push_back({i * 64, (kMaxRangesPerRead - 1 - i) * 64, 64});
  EXPECT_EQ(Await(reader, Start(reader, peer, ranges), {&owner}), absl::OkStatus());
  for (const CopyRange& range : ranges) {
    ASSERT_TRUE(std::equal(owner.region.begin() + range.remote_offset,
                           owner.region.begin() + range.remote_offset + range.bytes,
                           reader.region.begin() + range.local_offset));
  }
  ranges.push_back({0, 0, 64});
  EXPECT_EQ(reader.transport->StartRead(peer, kFetch, ranges).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(TransportConformance, RefusesRangesOutsideOfEitherRegion) {
  TransportEnd owner = MakeEnd(kRegionBytes);
  TransportEnd reader = MakeEnd(kRegionBytes / 2);
  const PeerId peer = ConnectOrDie(reader, owner);
  constexpr uint64_t kRemote = kRegionBytes;
  constexpr uint64_t kLocal = kRegionBytes / 2;
  const CopyRange bad[] = {
      {kRemote, 0, 1},    {kRemote - 1, 0, 2},         {0, kLocal, 1},      {0, kLocal - 1, 2},
      {0, 0, kLocal + 1}, {UINT64_MAX, 0, 1},          {1, 0, UINT64_MAX},  {0, UINT64_MAX, 1},
      {0, 1, UINT64_MAX}, {UINT64_MAX, 0, UINT64_MAX}, {kRemote + 1, 0, 0}, {0, kLocal + 1, 0},
  };
  for (const CopyRange& range : bad) {
    const CopyRange with_good[] = {{0, 0, 64}, range};
    EXPECT_EQ(reader.transport->StartRead(peer, kFetch, with_good).status().code(), absl::StatusCode::kOutOfRange)
        << range.remote_offset << " " << range.local_offset << " " << range.bytes;
  }
  EXPECT_EQ(Await(reader, Start(reader, peer, {{kRemote - 64, kLocal - 64, 64}}), {&owner}), absl::OkStatus());
  EXPECT_EQ(Await(reader, Start(reader, peer, {{kRemote, kLocal, 0}}), {&owner}), absl::OkStatus());
}

// An owner that serves the reads itself serves what it granted, to the fetch that it granted it to, and for as long.
TEST_P(TransportConformance, OwnerServesOnlyWhatItGranted) {
  TransportEnd owner = MakeEnd();
  if (owner.transport->shares_memory()) GTEST_SKIP() << "readers map the memory";
  TransportEnd reader = MakeEnd();
  FillRandom(owner.region, kSeed);
  const PeerId peer = ConnectOrDie(reader, owner);
  constexpr Id128 kOther{.high = 3, .low = 5};
  const auto status_of = [&](const Id128& fetch, const CopyRange& range) {
    const auto read = reader.transport->StartRead(peer, fetch, {range});
    return read.ok() ? Await(reader, *read, {&owner}) : read.status();
  };
  std::fill(reader.region.begin(), reader.region.end(), 0);
  owner.transport->grants().Grant(kOther, {{.offset = 8192, .bytes = 4096}});
  EXPECT_EQ(status_of(kOther, {8192, 0, 4096}), absl::OkStatus());
  EXPECT_TRUE(std::equal(owner.region.begin() + 8192, owner.region.begin() + 12288, reader.region.begin()));
  std::fill(reader.region.begin(), reader.region.end(), 0);
  const int64_t refused_before = owner.transport->grants().refusals();
  EXPECT_TRUE(absl::IsUnavailable(status_of(kOther, {8191, 0, 64})));
  EXPECT_TRUE(absl::IsUnavailable(status_of(kOther, {12287, 0, 2})));
  EXPECT_TRUE(absl::IsUnavailable(status_of({}, {8192, 0, 4096})));
  EXPECT_TRUE(absl::IsUnavailable(status_of({.high = 9, .low = 9}, {8192, 0, 4096})));
  EXPECT_TRUE(owner.transport->grants().Withdraw(kOther));
  EXPECT_TRUE(absl::IsUnavailable(status_of(kOther, {8192, 0, 4096})));
  EXPECT_EQ(owner.transport->grants().refusals() - refused_before, 5);
  EXPECT_TRUE(std::all_of(reader.region.begin(), reader.region.end(), [](uint8_t byte) { return byte == 0; }));
  // The peer is not lost for others.
  EXPECT_EQ(status_of(kFetch, {0, 0, 4096}), absl::OkStatus());
}

// A withdrawn grant ends a read in its middle. While bytes are on their way out, the owner's memory stays as it is.
TEST_P(TransportConformance, WithdrawnGrantEndsAReadUnderWay) {
  constexpr size_t kBytes = 32u << 20;
  TransportEnd owner = MakeEnd(kBytes);
  if (owner.transport->shares_memory()) GTEST_SKIP() << "readers map the memory";
  TransportEnd reader = MakeEnd(kBytes);
  std::fill(owner.region.begin(), owner.region.end(), 0x11);
  std::fill(reader.region.begin(), reader.region.end(), 0);
  const PeerId peer = ConnectOrDie(reader, owner);
  EXPECT_EQ(Await(reader, Start(reader, peer, {{0, 0, 4096}}), {&owner}), absl::OkStatus());
  const ReadId read = Start(reader, peer, {{0, 0, kBytes}});
  // Reads take turns, so that a short one ends in the middle of a long one. Bytes of the long one would tell the same,
  // but a device writes them at any time.
  EXPECT_EQ(Await(reader, Start(reader, peer, {{0, 0, 4096}}), {&owner}), absl::OkStatus());
  bool idle = owner.transport->grants().Withdraw(kFetch);
  while (!idle) {
    reader.Poll();
    owner.Poll();
    idle = owner.transport->grants().Withdraw(kFetch);
  }
  std::fill(owner.region.begin(), owner.region.end(), 0x22);
  EXPECT_TRUE(absl::IsUnavailable(Await(reader, read, {&owner})));
  EXPECT_TRUE(std::none_of(reader.region.begin(), reader.region.end(), [](uint8_t byte) { return byte == 0x22; }));
}

TEST_P(TransportConformance, StalledOwnerHoldsUpNobodyElse) {
  constexpr size_t kBytes = 8u << 20;
  TransportEnd stalled = MakeEnd(kBytes);
  TransportEnd living = MakeEnd(kBytes);
  TransportEnd reader = MakeEnd(kBytes);
  const PeerId stalled_peer = ConnectOrDie(reader, stalled);
  const PeerId living_peer = ConnectOrDie(reader, living);
  for (PeerId peer : {stalled_peer, living_peer}) {
    EXPECT_EQ(Await(reader, Start(reader, peer, {{0, 0, 64}}), {&stalled, &living}), absl::OkStatus());
  }
  // As many reads as one peer may have, each longer than what is asked for at once.
  std::vector<ReadId> held_up;
  for (size_t i = 0; i < kMaxReadsInFlight; ++i) held_up.push_back(Start(reader, stalled_peer, {{0, 0, kBytes}}));
  EXPECT_EQ(Await(reader, Start(reader, living_peer, {{0, 0, kBytes}}), {&living}), absl::OkStatus());
  if (!stalled.transport->shares_memory()) {
    for (ReadId read : held_up) EXPECT_EQ(reader.Find(read), nullptr) << "the living owner waited for the stalled one";
  }
}

TEST_P(TransportConformance, EmptyReadsComplete) {
  TransportEnd owner = MakeEnd();
  TransportEnd reader = MakeEnd();
  const PeerId peer = ConnectOrDie(reader, owner);
  EXPECT_EQ(Await(reader, Start(reader, peer, {}), {&owner}), absl::OkStatus());
  EXPECT_EQ(Await(reader, Start(reader, peer, {{16, 16, 0}, {0, 0, 0}}), {&owner}), absl::OkStatus());
}

TEST_P(TransportConformance, RefusesMoreReadsThanTheBoundAndAllEnd) {
  TransportEnd owner = MakeEnd();
  TransportEnd reader = MakeEnd();
  FillRandom(owner.region, kSeed);
  const PeerId peer = ConnectOrDie(reader, owner);
  constexpr size_t kPart = kRegionBytes / kMaxReadsInFlight;
  std::vector<ReadId> reads;
  for (size_t i = 0; i < kMaxReadsInFlight; ++i) {
    reads.push_back(Start(reader, peer, {{i * kPart, i * kPart, kPart}}));
  }
  EXPECT_EQ(reader.transport->StartRead(peer, kFetch, {{0, 0, 64}}).status().code(),
            absl::StatusCode::kResourceExhausted);
  for (ReadId read : reads) EXPECT_EQ(Await(reader, read, {&owner}), absl::OkStatus());
  EXPECT_EQ(reader.completions.size(), kMaxReadsInFlight);
  EXPECT_TRUE(std::equal(owner.region.begin(), owner.region.end(), reader.region.begin()));
  EXPECT_EQ(Await(reader, Start(reader, peer, {{0, 0, 64}}), {&owner}), absl::OkStatus());
}

TEST_P(TransportConformance, NothingIsWrittenAfterADisconnectedReadCompleted) {
  constexpr size_t kBytes = 32u << 20;
  TransportEnd owner = MakeEnd(kBytes);
  TransportEnd reader = MakeEnd(kBytes);
  std::fill(owner.region.begin(), owner.region.end(), 0x11);
  const PeerId peer = ConnectOrDie(reader, owner);
  // Connected and warm, so that the read is under way when it is cut.
  EXPECT_EQ(Await(reader, Start(reader, peer, {{0, 0, 4096}}), {&owner}), absl::OkStatus());

  std::vector<ReadId> reads;
  for (uint64_t half : {uint64_t{0}, uint64_t{kBytes / 2}})
    reads.push_back(Start(reader, peer, {{half, half, kBytes / 2}}));
  for (int i = 0; i < 3; ++i) {
    reader.Poll();
    owner.Poll();
  }
  reader.transport->Disconnect(peer);
  EXPECT_EQ(reader.transport->PathOf(peer), "");
  for (ReadId read : reads) {
    const absl::Status status = Await(reader, read, {});
    EXPECT_TRUE(status.ok() || absl::IsCancelled(status)) << status;
  }
  std::fill(reader.region.begin(), reader.region.end(), 0xee);

  // Another connection's read has gone all the way: what was under way before it has had its chance.
  const PeerId again = ConnectOrDie(reader, owner);
  EXPECT_EQ(Await(reader, Start(reader, again, {{0, 0, 4096}}), {&owner}), absl::OkStatus());
  for (int i = 0; i < 500; ++i) {
    reader.Poll();
    owner.Poll();
  }
  EXPECT_TRUE(
      std::all_of(reader.region.begin() + 4096, reader.region.end(), [](uint8_t byte) { return byte == 0xee; }));
  EXPECT_EQ(reader.completions.size(), reads.size() + 2) << "a read completed twice";
}

TEST_P(TransportConformance, OwnerOutlivesManyReadsCutShort) {
  TransportEnd owner = MakeEnd();
  FillRandom(owner.region, kSeed);
  const std::string address = *owner.transport->Address();
  const ServingThread serving(owner);
  SeededRandom random(kSeed);
  for (int i = 0; i < 30; ++i) {
    TransportEnd reader = MakeEnd();
    const auto peer = reader.transport->Connect(address);
    ASSERT_TRUE(peer.ok()) << peer.status();
    const ReadId read = Start(reader, *peer, {{0, 0, kRegionBytes}});
    // Some reads are cut while connecting, some in the middle, some never.
    for (uint64_t polls = random.Below(400); polls > 0; --polls) reader.Poll();
    if (random.Below(2) == 0) {
      reader.transport->Disconnect(*peer);
      const absl::Status status = Await(reader, read, {});
      EXPECT_TRUE(status.ok() || absl::IsCancelled(status)) << status;
    }
  }
  TransportEnd reader = MakeEnd();
  const auto peer = reader.transport->Connect(address);
  ASSERT_TRUE(peer.ok()) << peer.status();
  EXPECT_EQ(Await(reader, Start(reader, *peer, {{0, 0, kRegionBytes}}), {}), absl::OkStatus());
  EXPECT_TRUE(std::equal(owner.region.begin(), owner.region.end(), reader.region.begin()));
}

TEST_P(TransportConformance, ConnectingAgainAndAgainKeepsNoDescriptors) {
  TransportEnd owner = MakeEnd();
  TransportEnd reader = MakeEnd();
  const auto read_once = [&] {
    const PeerId peer = ConnectOrDie(reader, owner);
    EXPECT_EQ(Await(reader, Start(reader, peer, {{0, 0, 4096}}), {&owner}), absl::OkStatus());
    reader.transport->Disconnect(peer);
    for (int i = 0; i < 50; ++i) {
      owner.Poll();
      reader.Poll();
    }
  };
  read_once();
  const ptrdiff_t before = OpenDescriptors();
  for (int i = 0; i < 30; ++i) read_once();
  EXPECT_LT(OpenDescriptors(), before + 15);
}

TEST_P(TransportConformance, DisconnectedAndUnknownPeersAreNotFound) {
  TransportEnd owner = MakeEnd();
  TransportEnd reader = MakeEnd();
  const PeerId peer = ConnectOrDie(reader, owner);
  reader.transport->Disconnect(peer);
  reader.transport->Disconnect(peer);
  reader.transport->Disconnect(peer + 1000);
  for (PeerId unknown : {peer, peer + 1000}) {
    EXPECT_EQ(reader.transport->StartRead(unknown, kFetch, {{0, 0, 64}}).status().code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(reader.transport->StartProbe(unknown, 64).status().code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(reader.transport->PathOf(unknown), "");
  }
}

TEST_P(TransportConformance, DamagedAddressIsAnError) {
  TransportEnd owner = MakeEnd();
  TransportEnd reader = MakeEnd();
  const std::string good = *owner.transport->Address();
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_EQ(reader.transport->Connect(good.substr(0, length)).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_FALSE(reader.transport->Connect(good + "x").ok());
  EXPECT_FALSE(reader.transport->Connect(std::string(kMaxAddressBytes + 1, 'x')).ok());
  SeededRandom random(kSeed);
  for (int i = 0; i < 2000; ++i) {
    std::string bad = good;
    const uint64_t flips = 1 + random.Below(4);
    for (uint64_t flip = 0; flip < flips; ++flip)
      bad[random.Below(bad.size())] ^= static_cast<char>(1 + random.Below(255));
    if (bad == good) continue;
    EXPECT_EQ(reader.transport->Connect(bad).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(reader.transport->Connect(good).ok());
}

TEST_P(TransportConformance, ReconnectsManyTimes) {
  TransportEnd owner = MakeEnd();
  TransportEnd reader = MakeEnd();
  FillRandom(owner.region, kSeed);
  PeerId last = 0;
  for (int i = 0; i < 20; ++i) {
    const PeerId peer = ConnectOrDie(reader, owner);
    EXPECT_NE(peer, last);
    last = peer;
    std::fill(reader.region.begin(), reader.region.begin() + 4096, 0);
    EXPECT_EQ(Await(reader, Start(reader, peer, {{8192, 0, 4096}}), {&owner}), absl::OkStatus());
    EXPECT_TRUE(std::equal(reader.region.begin(), reader.region.begin() + 4096, owner.region.begin() + 8192));
    reader.transport->Disconnect(peer);
  }
}

TEST_P(TransportConformance, ShortReadOfOnePeerDoesNotWaitForLongReadOfAnother) {
  constexpr size_t kBytes = 64u << 20;
  TransportEnd far = MakeEnd(kBytes);
  TransportEnd near = MakeEnd();
  TransportEnd reader = MakeEnd(kBytes);
  const PeerId far_peer = ConnectOrDie(reader, far);
  const PeerId near_peer = ConnectOrDie(reader, near);
  for (PeerId peer : {far_peer, near_peer}) {
    EXPECT_EQ(Await(reader, Start(reader, peer, {{0, 0, 64}}), {&far, &near}), absl::OkStatus());
  }
  const ReadId long_read = Start(reader, far_peer, {{0, 0, kBytes}});
  const ReadId short_read = Start(reader, near_peer, {{0, 0, 64u << 10}});
  EXPECT_EQ(Await(reader, short_read, {&far, &near}), absl::OkStatus());
  EXPECT_EQ(reader.Find(long_read), nullptr);
  EXPECT_EQ(Await(reader, long_read, {&far, &near}), absl::OkStatus());
}

TEST_P(TransportConformance, WakeEndsWait) {
  TransportEnd end = MakeEnd();
  const TimeNs begin = MonotonicClock().Now();
  // A wake before the wait is not lost.
  end.transport->Wake();
  end.transport->WaitForEvent(kPatienceNs);
  std::atomic<bool> woken{false};
  std::thread waker([&] {
    while (!woken) {
      end.transport->Wake();
      std::this_thread::yield();
    }
  });
  for (int i = 0; i < 100; ++i) end.transport->WaitForEvent(kPatienceNs);
  woken = true;
  waker.join();
  EXPECT_LT(MonotonicClock().Now() - begin, kPatienceNs);
}

TEST_P(TransportConformance, WaitEndsByItsTimeout) {
  TransportEnd end = MakeEnd();
  // A backend may have events of its own at first.
  for (int i = 0; i < 10; ++i) {
    end.Poll();
    end.transport->WaitForEvent(kNsPerMs);
  }
  const TimeNs begin = MonotonicClock().Now();
  end.transport->WaitForEvent(20 * kNsPerMs);
  const int64_t waited_ns = MonotonicClock().Now() - begin;
  EXPECT_GE(waited_ns, 19 * kNsPerMs);
  EXPECT_LT(waited_ns, 10 * kNsPerSecond);
}

TEST_P(TransportConformance, OwnerThatSleepsBetweenEventsServesReads) {
  TransportEnd owner = MakeEnd();
  TransportEnd reader = MakeEnd();
  FillRandom(owner.region, kSeed);
  const std::string address = *owner.transport->Address();
  const ServingThread serving(owner);
  const auto peer = reader.transport->Connect(address);
  ASSERT_TRUE(peer.ok()) << peer.status();
  const TimeNs deadline = MonotonicClock().Now() + kPatienceNs;
  for (int i = 0; i < 50; ++i) {
    const uint64_t offset = i * 4096;
    const ReadId read = Start(reader, *peer, {{offset, offset, 4096}});
    while (reader.Find(read) == nullptr && MonotonicClock().Now() < deadline) {
      reader.transport->WaitForEvent(deadline - MonotonicClock().Now());
      reader.Poll();
    }
    ASSERT_NE(reader.Find(read), nullptr);
    EXPECT_EQ(reader.Find(read)->status, absl::OkStatus());
  }
  EXPECT_TRUE(std::equal(reader.region.begin(), reader.region.begin() + 50 * 4096, owner.region.begin()));
}

TEST_P(TransportConformance, PeerDestroyedWhileReadingEndsTheReads) {
  constexpr size_t kBytes = 32u << 20;
  TransportEnd owner = MakeEnd(kBytes);
  TransportEnd reader = MakeEnd(kBytes);
  std::fill(owner.region.begin(), owner.region.end(), 0x5a);
  const std::string address = *owner.transport->Address();
  const PeerId peer = ConnectOrDie(reader, owner);
  EXPECT_EQ(Await(reader, Start(reader, peer, {{0, 0, 4096}}), {&owner}), absl::OkStatus());
  const ReadId read = Start(reader, peer, {{0, 0, kBytes}});
  reader.Poll();
  owner.Poll();
  owner.transport.reset();
  const absl::Status status = Await(reader, read, {});
  if (status.ok()) {
    EXPECT_TRUE(std::all_of(reader.region.begin(), reader.region.end(), [](uint8_t byte) { return byte == 0x5a; }));
  } else {
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  }
  reader.transport->Disconnect(peer);
  // A peer that is gone: refused now, or by the first read.
  const auto late = reader.transport->Connect(address);
  if (!late.ok()) {
    EXPECT_TRUE(absl::IsUnavailable(late.status())) << late.status();
    return;
  }
  const auto late_read = reader.transport->StartRead(*late, kFetch, {{0, 0, 4096}});
  const absl::Status late_status = late_read.ok() ? Await(reader, *late_read, {}) : late_read.status();
  EXPECT_TRUE(absl::IsUnavailable(late_status)) << late_status;
}

TEST_P(TransportConformance, ReadsAfterBeingIdle) {
  TransportEnd owner = MakeEnd();
  TransportEnd reader = MakeEnd();
  FillRandom(owner.region, kSeed);
  const PeerId peer = ConnectOrDie(reader, owner);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 20; ++i) {
      reader.transport->WaitForEvent(kNsPerMs);
      owner.transport->WaitForEvent(kNsPerMs);
      reader.Poll();
      owner.Poll();
    }
    EXPECT_EQ(Await(reader, Start(reader, peer, {{0, round * 4096u, 4096}}), {&owner}), absl::OkStatus());
  }
  EXPECT_TRUE(std::equal(reader.region.begin() + 8192, reader.region.begin() + 12288, owner.region.begin()));
}

TEST_P(TransportConformance, ReadsFromItself) {
  TransportEnd end = MakeEnd();
  FillRandom(end.region.subspan(0, 4096), kSeed);
  const PeerId peer = ConnectOrDie(end, end);
  EXPECT_EQ(Await(end, Start(end, peer, {{0, 8192, 4096}}), {}), absl::OkStatus());
  EXPECT_TRUE(std::equal(end.region.begin(), end.region.begin() + 4096, end.region.begin() + 8192));
}

TEST_P(TransportConformance, ReadsInBothDirectionsAtOnce) {
  TransportEnd left = MakeEnd();
  TransportEnd right = MakeEnd();
  constexpr size_t kHalf = kRegionBytes / 2;
  FillRandom(left.region.subspan(0, kHalf), kSeed);
  FillRandom(right.region.subspan(0, kHalf), kSeed + 1);
  const PeerId to_right = ConnectOrDie(left, right);
  const PeerId to_left = ConnectOrDie(right, left);
  const ReadId left_read = Start(left, to_right, {{0, kHalf, kHalf}});
  const ReadId right_read = Start(right, to_left, {{0, kHalf, kHalf}});
  EXPECT_EQ(Await(left, left_read, {&right}), absl::OkStatus());
  EXPECT_EQ(Await(right, right_read, {&left}), absl::OkStatus());
  EXPECT_TRUE(std::equal(left.region.begin() + kHalf, left.region.end(), right.region.begin()));
  EXPECT_TRUE(std::equal(right.region.begin() + kHalf, right.region.end(), left.region.begin()));
}

TEST_P(TransportConformance, ProbeMeasuresAndLeavesTheRegionsAlone) {
  TransportEnd owner = MakeEnd();
  TransportEnd reader = MakeEnd();
  FillRandom(owner.region, kSeed);
  const PeerId peer = ConnectOrDie(reader, owner);
  const ServingThread serving(owner);
  const ReadId other = Start(reader, peer, {});
  std::vector<ReadCompletion> others;
  ProbeOptions options;
  options.bytes = 1u << 20;
  options.timeout_ms = kPatienceNs / kNsPerMs;
  const auto result = ProbeBandwidth(*reader.transport, peer, options, others);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->bytes, options.bytes);
  EXPECT_GT(result->bytes_per_second, 1e5);
  ASSERT_EQ(others.size(), 1u);
  EXPECT_EQ(others[0].read, other);
  EXPECT_TRUE(std::all_of(reader.region.begin(), reader.region.end(), [](uint8_t byte) { return byte == 0; }));
  EXPECT_EQ(reader.transport->StartProbe(peer, kMaxProbeBytes + 1).status().code(), absl::StatusCode::kOutOfRange);
}

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TESTING_TRANSPORT_CONFORMANCE_H_
