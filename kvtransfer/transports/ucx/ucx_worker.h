// One UCX context with one worker and at most one registered memory: RAII over UCX's C handles. Used by one thread at a
// time.
#ifndef BATON_KVTRANSFER_TRANSPORTS_UCX_UCX_WORKER_H_
#define BATON_KVTRANSFER_TRANSPORTS_UCX_UCX_WORKER_H_

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton::kvtransfer {

// UCX's own names and values, set in the program: the environment (UCX_TLS and so on) does not decide them.
using UcxSettings = std::vector<std::pair<std::string, std::string>>;

class UcxWorker {
 public:
  // `features` are UCX's: UCP_FEATURE_RMA, UCP_FEATURE_AM.
  static absl::StatusOr<std::unique_ptr<UcxWorker>> Create(uint64_t features, const UcxSettings& settings);
  // Waits a bounded time for endpoints that are still closing.
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  // Allocates zeroed memory of UCX's choice, at least `bytes`; called once.
  absl::StatusOr<uint8_t*> AllocateMemory(size_t bytes);
  // What a peer needs to reach that memory.
  absl::StatusOr<std::string> PackRkey();
  // Registers memory that outlives this worker, so that UCX sends from it and receives into it; called once, and not
  // with AllocateMemory.
  absl::Status RegisterMemory(uint8_t* base, size_t bytes, ucs_memory_type_t type);
  // Says so of an operation on bytes of the registered memory.
  void NameMemory(ucp_request_param_t& params) const;
  bool registers_memory() const { return memory_ != nullptr; }

  // Has active messages of this id handled, within Progress.
  absl::Status HandleMessages(unsigned id, ucp_am_recv_callback_t handler, void* argument);

  // What a peer needs to create an endpoint to this worker.
  absl::StatusOr<std::string> Address();

  // Runs at most `max_calls` rounds of progress.
  void Progress(int max_calls);
  // Returns false when Progress has something to do already. After true, event_fd() becomes readable as soon as it has.
  bool Arm();
  int event_fd() const { return event_fd_; }

  // Takes ownership of the endpoint. With `force`, which only endpoints with peer error handling allow, requests in
  // flight complete with an error.
  void CloseEndpoint(ucp_ep_h endpoint, bool force);

  ucp_worker_h handle() const { return worker_; }

 private:
  UcxWorker() = default;
  absl::Status Init(uint64_t features, const UcxSettings& settings);
  void ReapClosing();

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_mem_h memory_ = nullptr;
  ucs_memory_type_t memory_type_ = UCS_MEMORY_TYPE_HOST;
  int event_fd_ = -1;
  // Requests of ucp_ep_close_nbx that have not completed.
  std::vector<void*> closing_;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TRANSPORTS_UCX_UCX_WORKER_H_
