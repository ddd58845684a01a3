// The flags by which processes of a fleet find each other through an etcd.
#ifndef BATON_CLI_ETCD_FLAGS_H_
#define BATON_CLI_ETCD_FLAGS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "discovery/directory.h"
#include "prometheus/collectable.h"

namespace baton::cli {

struct EtcdFlags {
  // host:port of each member, separated by commas; empty: there is no etcd.
  std::string endpoints;
  std::string prefix = "/baton";
  // Names of PEM files. Without an authority: plain text.
  std::string ca;
  std::string cert;
  std::string key;

  bool is_on() const { return !endpoints.empty(); }
};

// --etcd, which is returned, --etcd-prefix, --etcd-ca, --etcd-cert, --etcd-key. `flags` outlives `app`.
CLI::Option* AddEtcdFlags(CLI::App& app, EtcdFlags& flags);

// Null without --etcd. INVALID_ARGUMENT, in one line, for files that cannot be read. The others are as Directory has
// them.
absl::StatusOr<std::unique_ptr<discovery::Directory>> JoinDirectory(
    const EtcdFlags& flags, discovery::SessionOptions own, std::function<void(const discovery::Fleet&)> on_change);

// What a scrape reads of the directory, which outlives the scrapes; null: nothing.
std::vector<std::shared_ptr<prometheus::Collectable>> DirectoryMetrics(const discovery::Directory* directory);

}  // namespace baton::cli

#endif  // BATON_CLI_ETCD_FLAGS_H_
