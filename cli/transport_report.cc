#include "cli/transport_report.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "common/log.h"
#include "common/status.h"
#include "kvtransfer/bandwidth_probe.h"

namespace baton::cli {
namespace {

constexpr size_t kProbeBytes = 16u << 20;
constexpr int kProbeRounds = 3;
constexpr size_t kPeerRegionBytes = 4096;
constexpr int64_t kOwnerWaitNs = kNsPerMs;

struct ProbeReport {
  std::string path;
  double bytes_per_second = 0;
};

absl::StatusOr<ProbeReport> Probe(kvtransfer::Transport& peer, const std::string& address) {
  BATON_RETURN_IF_ERROR(peer.AllocateRegion(kPeerRegionBytes).status());
  BATON_ASSIGN_OR_RETURN(const kvtransfer::PeerId id, peer.Connect(address));
  ProbeReport report{.path = std::string(peer.PathOf(id))};
  std::vector<kvtransfer::ReadCompletion> others;
  const auto probe = kvtransfer::ProbeBandwidth(peer, id, {.bytes = kProbeBytes, .rounds = kProbeRounds}, others);
  peer.Disconnect(id);
  if (!probe.ok()) return probe.status();
  report.bytes_per_second = probe->bytes_per_second;
  return report;
}

absl::StatusOr<ProbeReport> ProbeFromPeer(kvtransfer::Transport& transport,
                                          const kvtransfer::TransportOptions& options) {
  BATON_ASSIGN_OR_RETURN(const std::string address, transport.Address());
  // Only this process reaches the peer, so it needs none of the ports that are for others.
  kvtransfer::TransportOptions peer_options = options;
  peer_options.tcp_ports.reset();
  BATON_ASSIGN_OR_RETURN(const auto peer, kvtransfer::MakeTransport(peer_options));
  // Over a network, the owner takes part in each read.
  std::atomic<bool> done = false;
  std::thread owner([&] {
    std::vector<kvtransfer::ReadCompletion> none;
    while (!done) {
      transport.WaitForEvent(kOwnerWaitNs);
      transport.Poll(none);
    }
  });
  absl::StatusOr<ProbeReport> report = Probe(*peer, address);
  done = true;
  owner.join();
  return report;
}

}  // namespace

void LogBandwidth(kvtransfer::Transport& transport, const kvtransfer::TransportOptions& options) {
  // The peer of a probe is in this process, which takes another way to its own device than others do.
  if (options.memory != nullptr) {
    return spdlog::info("KV transport {}, of a device's memory{}", std::string(transport.name()),
                        transport.shares_memory() ? ", which the workers of this machine read by CUDA IPC" : "");
  }
  const absl::StatusOr<ProbeReport> report = ProbeFromPeer(transport, options);
  if (!report.ok()) {
    spdlog::warn("KV transport {}: the probe failed: {}", std::string(transport.name()),
                 std::string(report.status().message()));
    return;
  }
  spdlog::info("KV transport {} over {}: {:.1f} GB/s in a probe, memcpy {:.1f} GB/s", std::string(transport.name()),
               report->path, report->bytes_per_second / 1e9,
               kvtransfer::MemcpyBytesPerSecond(kProbeBytes, kProbeRounds) / 1e9);
}

}  // namespace baton::cli
