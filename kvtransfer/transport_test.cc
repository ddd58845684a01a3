#include "kvtransfer/transport.h"

#include <dlfcn.h>

#include <csignal>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvtransfer/copy_queue.h"
#include "kvtransfer/read_ranges.h"
#include "kvtransfer/region_layout.h"
#include "kvtransfer/testing/transport_conformance.h"
#include "kvtransfer/transport_address.h"

namespace baton::kvtransfer {
namespace {

TransportFactory FactoryOf(const std::string& label, TransportKind kind, const std::string& path) {
  return {label,
          [kind] {
            TransportOptions options;
            options.kind = kind;
            return MakeTransport(options);
          },
          path};
}

INSTANTIATE_TEST_SUITE_P(Backends, TransportConformance,
                         testing::Values(FactoryOf("Inproc", TransportKind::kInproc, "inproc"),
                                         FactoryOf("UcxShm", TransportKind::kShm, "shm"),
                                         FactoryOf("UcxTcp", TransportKind::kTcp, "tcp"),
                                         FactoryOf("UcxAuto", TransportKind::kAuto, "shm")),
                         FactoryName);

std::unique_ptr<Transport> MakeWithRegion(TransportKind kind) {
  TransportOptions options;
  options.kind = kind;
  auto transport = MakeTransport(options);
  EXPECT_TRUE(transport.ok()) << transport.status();
  EXPECT_TRUE((*transport)->AllocateRegion(1u << 20).ok());
  return *std::move(transport);
}

bool UcxIsLoaded() {
  void* const library = dlopen("libucp.so.0", RTLD_NOLOAD | RTLD_LAZY);
  if (library != nullptr) dlclose(library);
  return library != nullptr;
}

const bool kLoadedAtStart = UcxIsLoaded();

// Every command would wait for it.
TEST(UcxLibraryTest, IsLoadedByTheFirstTransportAndNotByTheProgram) {
  EXPECT_FALSE(kLoadedAtStart);
  MakeWithRegion(TransportKind::kShm);
  EXPECT_TRUE(UcxIsLoaded());
}

TEST(TransportKindTest, ParsesItsNamesAndNothingElse) {
  EXPECT_EQ(*ParseTransportKind("auto"), TransportKind::kAuto);
  EXPECT_EQ(*ParseTransportKind("inproc"), TransportKind::kInproc);
  EXPECT_EQ(*ParseTransportKind("shm"), TransportKind::kShm);
  EXPECT_EQ(*ParseTransportKind("tcp"), TransportKind::kTcp);
  EXPECT_EQ(*ParseTransportKind("rdma"), TransportKind::kRdma);
  EXPECT_EQ(*ParseTransportKind("grpc"), TransportKind::kGrpc);
  EXPECT_EQ(*ParseTransportKind("nccl"), TransportKind::kNccl);
  for (const char* bad : {"", "TCP", "ucx", "NCCL"}) {
    EXPECT_EQ(ParseTransportKind(bad).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(TransportPathTest, AutoMapsSharingPeersAndReadsOthersByTcp) {
  const auto automatic = MakeWithRegion(TransportKind::kAuto);
  const auto sharing = MakeWithRegion(TransportKind::kShm);
  const auto network = MakeWithRegion(TransportKind::kTcp);
  EXPECT_EQ(automatic->PathOf(*automatic->Connect(*sharing->Address())), "shm");
  EXPECT_EQ(automatic->PathOf(*automatic->Connect(*network->Address())), "tcp");
  EXPECT_EQ(network->PathOf(*network->Connect(*automatic->Address())), "tcp");
  EXPECT_EQ(network->Connect(*sharing->Address()).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(sharing->Connect(*network->Address()).status().code(), absl::StatusCode::kUnavailable);
}

TEST(TransportPathTest, AutoDoesNotMapWhatAnotherHostExposes) {
  const auto reader = MakeWithRegion(TransportKind::kAuto);
  const auto owner = MakeWithRegion(TransportKind::kAuto);
  TransportAddress address = *DecodeAddress(*owner->Address());
  address.host = "another boot";
  EXPECT_EQ(reader->PathOf(*reader->Connect(EncodeAddress(address))), "tcp");
  address.tcp_worker.clear();
  EXPECT_EQ(reader->Connect(EncodeAddress(address)).status().code(), absl::StatusCode::kUnavailable);
}

TEST(TransportPathTest, MappingOfAnotherRegionIsRefused) {
  const auto reader = MakeWithRegion(TransportKind::kShm);
  const auto owner = MakeWithRegion(TransportKind::kShm);
  TransportAddress address = *DecodeAddress(*owner->Address());
  ++address.nonce.low;
  EXPECT_EQ(reader->Connect(EncodeAddress(address)).status().code(), absl::StatusCode::kUnavailable);
  --address.nonce.low;
  EXPECT_TRUE(reader->Connect(EncodeAddress(address)).ok());
  // Beyond the mapping's end: noticed without a crash.
  address.region_bytes = uint64_t{1} << 40;
  EXPECT_EQ(reader->Connect(EncodeAddress(address)).status().code(), absl::StatusCode::kUnavailable);
}

TEST(TransportPathTest, TcpOwnerRefusesReadersOfARegionThatIsGone) {
  const auto reader = MakeWithRegion(TransportKind::kTcp);
  const auto owner = MakeWithRegion(TransportKind::kTcp);
  TransportAddress address = *DecodeAddress(*owner->Address());
  ++address.nonce.low;
  const auto peer = reader->Connect(EncodeAddress(address));
  ASSERT_TRUE(peer.ok()) << peer.status();
  constexpr Id128 kGranted{.high = 1, .low = 1};
  owner->grants().Grant(kGranted, {{.offset = 0, .bytes = 4096}});
  ASSERT_TRUE(reader->StartRead(*peer, kGranted, {{0, 0, 4096}}).ok());
  std::vector<ReadCompletion> completions;
  while (completions.empty()) {
    reader->Poll(completions);
    owner->Poll(completions);
  }
  EXPECT_TRUE(absl::IsUnavailable(completions[0].status)) << completions[0].status;
}

TEST(TransportPathTest, RefusesMorePeersThanTheBound) {
  const auto reader = MakeWithRegion(TransportKind::kInproc);
  const auto owner = MakeWithRegion(TransportKind::kInproc);
  const std::string address = *owner->Address();
  for (size_t i = 0; i < kMaxPeers; ++i) ASSERT_TRUE(reader->Connect(address).ok());
  EXPECT_EQ(reader->Connect(address).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(UcxLibraryTest, LeavesSignalsToTheProgram) {
  const auto transport = MakeWithRegion(TransportKind::kAuto);
  for (int number : {SIGHUP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM, SIGPIPE}) {
    struct sigaction action;
    ASSERT_EQ(sigaction(number, nullptr, &action), 0);
    void* const handler = reinterpret_cast<void*>(action.sa_sigaction);
    Dl_info where;
    if (handler == nullptr || dladdr(handler, &where) == 0) continue;
    EXPECT_EQ(std::string(where.dli_fname).find("libuc"), std::string::npos) << "signal " << number;
  }
}

TEST(TransportRegionTest, LargeRegionCostsNothingUntilTouched) {
  for (TransportKind kind : {TransportKind::kInproc, TransportKind::kAuto}) {
    TransportOptions options;
    options.kind = kind;
    auto transport = MakeTransport(options);
    ASSERT_TRUE(transport.ok()) << transport.status();
    const TimeNs begin = MonotonicClock().Now();
    auto region = (*transport)->AllocateRegion(size_t{4} << 30);
    ASSERT_TRUE(region.ok()) << region.status();
    EXPECT_LT(MonotonicClock().Now() - begin, kNsPerSecond);
    EXPECT_EQ(region->back(), 0);
  }
}

TEST(TransportRegionTest, RefusesWhatNoMachineHas) {
  for (TransportKind kind : {TransportKind::kInproc, TransportKind::kShm, TransportKind::kTcp}) {
    TransportOptions options;
    options.kind = kind;
    auto transport = MakeTransport(options);
    ASSERT_TRUE(transport.ok()) << transport.status();
    EXPECT_EQ((*transport)->AllocateRegion(kMaxRegionBytes + 1).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ((*transport)->AllocateRegion(kMaxRegionBytes).status().code(), absl::StatusCode::kResourceExhausted);
  }
}

TEST(TransportAddressTest, RoundTrips) {
  TransportAddress address;
  address.nonce = {1, 2};
  address.region_bytes = 3;
  address.base = 4;
  address.host = "host";
  address.shm_worker = "worker";
  address.shm_rkey = "rkey";
  const auto decoded = DecodeAddress(EncodeAddress(address));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->nonce, address.nonce);
  EXPECT_EQ(decoded->region_bytes, 3u);
  EXPECT_EQ(decoded->base, 4u);
  EXPECT_EQ(decoded->host, "host");
  EXPECT_EQ(decoded->shm_worker, "worker");
  EXPECT_EQ(decoded->shm_rkey, "rkey");
  EXPECT_TRUE(decoded->tcp_worker.empty());
}

TEST(TransportAddressTest, WithoutALaterTargetItIsWhatWorkersOfAFormerVersionRead) {
  TransportAddress address;
  address.region_bytes = 4096;
  const std::string former = EncodeAddress(address);
  // Magic, four numbers, the sizes of four texts, and the digest.
  EXPECT_EQ(former.substr(0, 8), "BATONKV1");
  EXPECT_EQ(former.size(), 8u + 4 * 8 + 4 * 8 + 16);
  EXPECT_TRUE(DecodeAddress(former).ok());
  address.grpc_target = "host:1";
  const std::string later = EncodeAddress(address);
  EXPECT_EQ(later.substr(0, 8), "BATONKV2");
  ASSERT_TRUE(DecodeAddress(later).ok());
  EXPECT_EQ(DecodeAddress(later)->grpc_target, "host:1");
  address.nccl_target = "host:2";
  for (const char* grpc_target : {"host:1", ""}) {
    address.grpc_target = grpc_target;
    const std::string latest = EncodeAddress(address);
    EXPECT_EQ(latest.substr(0, 8), "BATONKV3");
    ASSERT_TRUE(DecodeAddress(latest).ok());
    EXPECT_EQ(DecodeAddress(latest)->grpc_target, grpc_target);
    EXPECT_EQ(DecodeAddress(latest)->nccl_target, "host:2");
  }
  address.device_share = "a handle";
  for (const char* nccl_target : {"host:2", ""}) {
    address.nccl_target = nccl_target;
    const std::string of_device = EncodeAddress(address);
    EXPECT_EQ(of_device.substr(0, 8), "BATONKV4");
    ASSERT_TRUE(DecodeAddress(of_device).ok());
    EXPECT_EQ(DecodeAddress(of_device)->nccl_target, nccl_target);
    EXPECT_EQ(DecodeAddress(of_device)->device_share, "a handle");
  }
  address.rdma_worker = "an adapter";
  for (const char* device_share : {"a handle", ""}) {
    address.device_share = device_share;
    const std::string with_rdma = EncodeAddress(address);
    EXPECT_EQ(with_rdma.substr(0, 8), "BATONKV5");
    ASSERT_TRUE(DecodeAddress(with_rdma).ok());
    EXPECT_EQ(DecodeAddress(with_rdma)->device_share, device_share);
    EXPECT_EQ(DecodeAddress(with_rdma)->rdma_worker, "an adapter");
  }
}

TEST(TransportAddressTest, RefusesImpossibleRegions) {
  TransportAddress address;
  EXPECT_FALSE(DecodeAddress(EncodeAddress(address)).ok());
  address.region_bytes = kMaxRegionBytes + 1;
  EXPECT_FALSE(DecodeAddress(EncodeAddress(address)).ok());
  address.region_bytes = 4096;
  EXPECT_TRUE(DecodeAddress(EncodeAddress(address)).ok());
  address.base = UINT64_MAX - 4096;
  EXPECT_FALSE(DecodeAddress(EncodeAddress(address)).ok());
  address.base = 0;
  address.shm_rkey = "a key without a worker";
  EXPECT_FALSE(DecodeAddress(EncodeAddress(address)).ok());
}

TEST(ReadRangesTest, CoalescesOnlyWhatTouchesAtBothEnds) {
  const std::vector<CopyRange> joined =
      Coalesce({{0, 100, 10}, {10, 110, 5}, {15, 200, 5}, {20, 205, 0}, {30, 205, 5}, {35, 210, 1}});
  ASSERT_EQ(joined.size(), 3u);
  EXPECT_EQ(joined[0].bytes, 15u);
  EXPECT_EQ(joined[1].local_offset, 200u);
  EXPECT_EQ(joined[1].bytes, 5u);
  EXPECT_EQ(joined[2].remote_offset, 30u);
  EXPECT_EQ(joined[2].bytes, 6u);
}

TEST(CopyQueueTest, OnePollCopiesABoundedAmountInTurns) {
  std::vector<uint8_t> from(8 * kCopyPollBytes, 1);
  std::vector<uint8_t> to(from.size(), 0);
  CopyQueue queue;
  const uint64_t half = from.size() / 2;
  queue.Add({.read = 1, .peer = 1, .remote = from.data(), .local = to.data(), .ranges = {{0, 0, half}}});
  queue.Add({.read = 2, .peer = 2, .remote = from.data(), .local = to.data(), .ranges = {{half, half, half}}});
  std::vector<ReadCompletion> completions;
  queue.Poll(completions);
  EXPECT_EQ(std::count(to.begin(), to.end(), 1), static_cast<ptrdiff_t>(kCopyPollBytes));
  EXPECT_EQ(to[0], 1);
  EXPECT_EQ(to[half], 1);
  queue.CancelPeer(1);
  while (queue.in_flight() > 0) queue.Poll(completions);
  ASSERT_EQ(completions.size(), 2u);
  EXPECT_EQ(completions[0].read, 1u);
  EXPECT_TRUE(absl::IsCancelled(completions[0].status));
  EXPECT_EQ(completions[1].status, absl::OkStatus());
  EXPECT_EQ(to[half - 1], 0);
}

}  // namespace
}  // namespace baton::kvtransfer
