// A worker's flags to a running worker::WorkerProcess: the one place that knows the model's file, the transport and
// which phases make up which kind of worker.
#ifndef BATON_CLI_START_WORKER_H_
#define BATON_CLI_START_WORKER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "baton/internal/v1/worker.pb.h"
#include "cli/admin_port.h"
#include "cli/etcd_flags.h"
#include "cli/options.h"
#include "worker/worker_process.h"

namespace baton::cli {

struct WorkerFlags {
  EngineFlags engine;
  ListenFlags listen;
  AdminFlags admin;
  // host:port of each router, separated by commas; not used with an etcd, which names them.
  std::string router;
  EtcdFlags etcd;
  std::string served_model_name;
  // The host by which others reach the worker; empty: the address that it listens on.
  std::string advertise;
  // "FIRST-LAST"; empty: any.
  std::string transfer_ports;
  bool supervised = false;
  // What CreateCoreArbiter made, inherited from the supervisor; -1: none.
  int core_arbiter_fd = -1;
  // How many workers of the supervisor, this one among them, compute on the same device.
  int device_workers = 1;
};

// Loads the model and starts to serve. The router learns where `admin` listens, whose metrics name the build. Null
// `credentials`: plain text; others outlive the worker.
absl::StatusOr<std::unique_ptr<worker::WorkerProcess>> StartWorker(internal::v1::WorkerRole role, WorkerFlags flags,
                                                                   AdminPort& admin, rpc::Credentials* credentials);

}  // namespace baton::cli

#endif  // BATON_CLI_START_WORKER_H_
