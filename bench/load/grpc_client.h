// Loads Baton's own API: baton.v1.GenerationService.
#ifndef BATON_BENCH_LOAD_GRPC_CLIENT_H_
#define BATON_BENCH_LOAD_GRPC_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "baton/v1/admin.grpc.pb.h"
#include "baton/v1/generation.grpc.pb.h"
#include "bench/load/load_client.h"
#include "bench/load/load_setting.h"

namespace baton::bench {

struct GrpcClientOptions {
  // HOST:PORT of the router.
  std::string target;
  // Leads there.
  std::shared_ptr<grpc::Channel> channel;
  // Empty for the one model that is served.
  std::string model;
  // What each output must match. Without a source an output goes on behind an end token; with one it may end early.
  v1::Grammar grammar;
  // Deadline of each request; 0 for none.
  int64_t timeout_ms = 0;
};

class GrpcClient final : public LoadClient {
 public:
  explicit GrpcClient(const GrpcClientOptions& options);

  // The served model. UNAVAILABLE when nothing listens, NOT_FOUND when the server does not serve that model.
  absl::StatusOr<v1::Model> FindModel();
  // The workers that serve `model`; none when the router does not say.
  std::optional<ClusterShape> FindCluster(const std::string& model);

  absl::StatusOr<int> Generate(const LoadRequest& request, const std::function<void()>& on_output) override;
  void CancelAll() override;

 private:
  // A call in flight, for CancelAll.
  class OpenCall;

  const GrpcClientOptions options_;
  const std::unique_ptr<v1::GenerationService::Stub> stub_;
  const std::unique_ptr<v1::AdminService::Stub> admin_;
  absl::Mutex mutex_;
  bool is_cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<grpc::ClientContext*> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton::bench

#endif  // BATON_BENCH_LOAD_GRPC_CLIENT_H_
