// The fixture of transport_conformance.h: ends made by a backend's factory, and ways to drive them.
#ifndef BATON_KVTRANSFER_TESTING_TRANSPORT_CONFORMANCE_FIXTURE_H_
#define BATON_KVTRANSFER_TESTING_TRANSPORT_CONFORMANCE_FIXTURE_H_

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/random.h"
#include "gtest/gtest.h"
#include "kvtransfer/transport.h"

namespace baton::kvtransfer {

struct TransportFactory {
  std::string label;
  std::function<absl::StatusOr<std::unique_ptr<Transport>>()> make;
  // PathOf a peer made by the same factory.
  std::string path;
};

inline std::string FactoryName(const testing::TestParamInfo<TransportFactory>& info) { return info.param.label; }
inline void PrintTo(const TransportFactory& factory, std::ostream* out) { *out << factory.label; }

// A transport with its region and peers.
struct TransportEnd {
  std::unique_ptr<Transport> transport;
  absl::Span<uint8_t> region;
  std::vector<ReadCompletion> completions;

  void Poll() { transport->Poll(completions); }
  const ReadCompletion* Find(ReadId read) const {
    for (const ReadCompletion& completion : completions) {
      if (completion.read == read) return &completion;
    }
    return nullptr;
  }
};

class TransportConformance : public testing::TestWithParam<TransportFactory> {
 protected:
  static constexpr size_t kRegionBytes = 4u << 20;
  // No read of these tests takes this long on a loaded machine.
  static constexpr int64_t kPatienceNs = 60 * kNsPerSecond;

  // May read all of every end's region.
  static constexpr Id128 kFetch{.high = 3, .low = 4};

  TransportConformance() { RecordProperty("seed", static_cast<int>(kSeed)); }

  static TransportEnd MakeEnd(size_t bytes = kRegionBytes) {
    TransportEnd end;
    auto transport = GetParam().make();
    EXPECT_TRUE(transport.ok()) << transport.status();
    end.transport = *std::move(transport);
    auto region = end.transport->AllocateRegion(bytes);
    EXPECT_TRUE(region.ok()) << region.status();
    end.region = *region;
    end.transport->grants().Grant(kFetch, {{.offset = 0, .bytes = bytes}});
    return end;
  }

  static PeerId ConnectOrDie(TransportEnd& reader, TransportEnd& owner) {
    const auto address = owner.transport->Address();
    EXPECT_TRUE(address.ok()) << address.status();
    const auto peer = reader.transport->Connect(*address);
    EXPECT_TRUE(peer.ok()) << peer.status();
    return peer.value_or(0);
  }

  static ReadId Start(TransportEnd& reader, PeerId peer, const std::vector<CopyRange>& ranges) {
    const auto read = reader.transport->StartRead(peer, kFetch, ranges);
    EXPECT_TRUE(read.ok()) << read.status();
    return read.value_or(0);
  }

  // Polls all ends until the read has completed.
  static absl::Status Await(TransportEnd& reader, ReadId read, const std::vector<TransportEnd*>& others) {
    const TimeNs deadline = MonotonicClock().Now() + kPatienceNs;
    while (MonotonicClock().Now() < deadline) {
      reader.Poll();
      for (TransportEnd* other : others) other->Poll();
      if (const ReadCompletion* completion = reader.Find(read)) return completion->status;
    }
    return absl::DeadlineExceededError("the read did not complete");
  }

  static ptrdiff_t OpenDescriptors() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  }

  static void FillRandom(absl::Span<uint8_t> bytes, uint64_t seed) {
    SeededRandom random(seed);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.Next64() >> 32);
  }

  static constexpr uint64_t kSeed = 20240611;
};

// A transfer thread for an end that only serves: sleeps between events, as a worker's does.
class ServingThread {
 public:
  explicit ServingThread(TransportEnd& end)
      : end_(end), thread_([this] {
          while (!stop_) {
            end_.transport->WaitForEvent(60 * kNsPerSecond);
            end_.Poll();
          }
        }) {}
  ~ServingThread() {
    stop_ = true;
    end_.transport->Wake();
    thread_.join();
  }

 private:
  TransportEnd& end_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TESTING_TRANSPORT_CONFORMANCE_FIXTURE_H_
