#include "worker/fetch_endpoint.h"

#include <string>
#include <utility>
#include <variant>

#include "common/log.h"
#include "common/log_limit.h"

namespace baton::worker {

FetchEndpoint::FetchEndpoint()
    : service_({.on_request =
                    [this](kvtransfer::FetchStreamId stream, const kvtransfer::FetchRequest& request) {
                      Post([this, stream, verified = Verified(request)] {
                        core_->kv_server().OnFetchRequest(stream, verified);
                      });
                    },
                .on_closed =
                    [this](kvtransfer::FetchStreamId stream) {
                      Post([this, stream] { core_->kv_server().OnFetchClosed(stream); });
                    }}) {}

void FetchEndpoint::Attach(WorkerCore& core, const rpc::Credentials* credentials) {
  core_ = &core;
  if (credentials != nullptr) verifier_.emplace(*credentials);
}

kvtransfer::FetchRequest FetchEndpoint::Verified(kvtransfer::FetchRequest request) {
  auto* const open = std::get_if<kvtransfer::FetchOpen>(&request);
  if (open == nullptr || open->capability.empty() || !verifier_.has_value()) return request;
  open->terms = verifier_->Verify(open->capability);
  open->capability.clear();
  static LogLimit limit;
  if (open->terms.ok()) return request;
  if (const auto left_out = limit.Admit()) {
    spdlog::warn("a Fetch of job {} does not count: {}{}", open->key.ToString(),
                 std::string(open->terms.status().message()), LeftOutNote(*left_out));
  }
  return request;
}

// Losing a Fetch event is safe: the reader's lease runs out.
void FetchEndpoint::Post(engine::EngineLoop::Task task) {
  if (!core_->loop().Post(std::move(task))) {
    spdlog::warn("the engine's loop takes no more events: a Fetch event is dropped");
  }
}

}  // namespace baton::worker
