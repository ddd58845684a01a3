#include "worker/fetch_endpoint.h"

#include <utility>

#include "common/log.h"

namespace baton::worker {

FetchEndpoint::FetchEndpoint()
    : service_({.on_request =
                    [this](kvtransfer::FetchStreamId stream, const kvtransfer::FetchRequest& request) {
                      Post([this, stream, request] { core_->kv_server().OnFetchRequest(stream, request); });
                    },
                .on_closed =
                    [this](kvtransfer::FetchStreamId stream) {
                      Post([this, stream] { core_->kv_server().OnFetchClosed(stream); });
                    }}) {}

// Losing a Fetch event is safe: the reader's lease runs out.
void FetchEndpoint::Post(engine::EngineLoop::Task task) {
  if (!core_->loop().Post(std::move(task))) {
    spdlog::warn("the engine's loop takes no more events: a Fetch event is dropped");
  }
}

}  // namespace baton::worker
