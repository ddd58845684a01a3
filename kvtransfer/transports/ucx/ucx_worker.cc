#include "kvtransfer/transports/ucx/ucx_worker.h"

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/clock.h"
#include "common/status.h"
#include "kvtransfer/transports/ucx/ucx_library.h"

namespace baton::kvtransfer {
namespace {

// How long the destructor waits for endpoints to close.
constexpr int64_t kCloseTimeoutNs = 200 * kNsPerMs;
constexpr int kProgressCallsWhileClosing = 16;

absl::StatusOr<ucp_config_t*> ReadConfig(const UcxSettings& settings) {
  ucp_config_t* config = nullptr;
  if (const ucs_status_t status = Ucx().ucp_config_read(nullptr, nullptr, &config); status != UCS_OK) {
    return UcxError("reading UCX's configuration", status);
  }
  for (const auto& [name, value] : settings) {
    if (const ucs_status_t status = Ucx().ucp_config_modify(config, name.c_str(), value.c_str()); status != UCS_OK) {
      Ucx().ucp_config_release(config);
      return UcxError(absl::StrCat("UCX setting ", name, "=", value), status);
    }
  }
  return config;
}

}  // namespace

absl::StatusOr<std::unique_ptr<UcxWorker>> UcxWorker::Create(uint64_t features, const UcxSettings& settings) {
  BATON_RETURN_IF_ERROR(SetUpUcx());
  auto worker = absl::WrapUnique(new UcxWorker);
  BATON_RETURN_IF_ERROR(worker->Init(features, settings));
  return worker;
}

absl::Status UcxWorker::Init(uint64_t features, const UcxSettings& settings) {
  BATON_ASSIGN_OR_RETURN(ucp_config_t * config, ReadConfig(settings));
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = features | UCP_FEATURE_WAKEUP;
  ucs_status_t status = Ucx().ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
  Ucx().ucp_config_release(config);
  if (status != UCS_OK) return UcxError("starting UCX", status);

  ucp_worker_params_t worker_params{};
  worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  // Serialized, because the thread that allocates the region is not the transfer thread.
  worker_params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  status = Ucx().ucp_worker_create(context_, &worker_params, &worker_);
  if (status != UCS_OK) return UcxError("creating a UCX worker", status);
  status = Ucx().ucp_worker_get_efd(worker_, &event_fd_);
  if (status != UCS_OK) return UcxError("UCX's event descriptor", status);
  return absl::OkStatus();
}

UcxWorker::~UcxWorker() {
  const Clock& clock = MonotonicClock();
  const TimeNs deadline = clock.Now() + kCloseTimeoutNs;
  while (!closing_.empty() && clock.Now() < deadline) Progress(kProgressCallsWhileClosing);
  for (void* request : closing_) Ucx().ucp_request_free(request);
  if (worker_ != nullptr) Ucx().ucp_worker_destroy(worker_);
  if (memory_ != nullptr) Ucx().ucp_mem_unmap(context_, memory_);
  if (context_ != nullptr) Ucx().ucp_cleanup(context_);
}

absl::StatusOr<uint8_t*> UcxWorker::AllocateMemory(size_t bytes) {
  BATON_CHECK(memory_ == nullptr);
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
  params.address = nullptr;
  params.length = bytes;
  // NONBLOCK: pages need not be backed before they are used.
  params.flags = UCP_MEM_MAP_ALLOCATE | UCP_MEM_MAP_NONBLOCK;
  ucs_status_t status = Ucx().ucp_mem_map(context_, &params, &memory_);
  if (status != UCS_OK) return UcxError(absl::StrCat("UCX memory of ", bytes, " bytes"), status);
  ucp_mem_attr_t attributes{};
  attributes.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS;
  status = Ucx().ucp_mem_query(memory_, &attributes);
  if (status != UCS_OK) return UcxError("querying UCX memory", status);
  return static_cast<uint8_t*>(attributes.address);
}

absl::Status UcxWorker::RegisterMemory(uint8_t* base, size_t bytes, ucs_memory_type_t type) {
  BATON_CHECK(memory_ == nullptr);
  ucp_mem_map_params_t params{};
  params.field_mask =
      UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
  params.address = base;
  params.length = bytes;
  params.memory_type = type;
  const ucs_status_t status = Ucx().ucp_mem_map(context_, &params, &memory_);
  if (status != UCS_OK) return UcxError(absl::StrCat("registering memory of ", bytes, " bytes with UCX"), status);
  memory_type_ = type;
  return absl::OkStatus();
}

void UcxWorker::NameMemory(ucp_request_param_t& params) const {
  params.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FIELD_MEMH;
  params.memory_type = memory_type_;
  params.memh = memory_;
}

absl::Status UcxWorker::HandleMessages(unsigned id, ucp_am_recv_callback_t handler, void* argument) {
  ucp_am_handler_param_t params{};
  params.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  params.id = id;
  params.cb = handler;
  params.arg = argument;
  const ucs_status_t status = Ucx().ucp_worker_set_am_recv_handler(worker_, &params);
  return status == UCS_OK ? absl::OkStatus() : UcxError(absl::StrCat("UCX's handler of messages ", id), status);
}

absl::StatusOr<std::string> UcxWorker::PackRkey() {
  BATON_CHECK(memory_ != nullptr);
  void* rkey = nullptr;
  size_t bytes = 0;
  const ucs_status_t status = Ucx().ucp_rkey_pack(context_, memory_, &rkey, &bytes);
  if (status != UCS_OK) return UcxError("packing a UCX remote key", status);
  std::string packed(static_cast<const char*>(rkey), bytes);
  Ucx().ucp_rkey_buffer_release(rkey);
  return packed;
}

absl::StatusOr<std::string> UcxWorker::Address() {
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  const ucs_status_t status = Ucx().ucp_worker_get_address(worker_, &address, &bytes);
  if (status != UCS_OK) return UcxError("the UCX worker's address", status);
  std::string packed(reinterpret_cast<const char*>(address), bytes);
  Ucx().ucp_worker_release_address(worker_, address);
  return packed;
}

void UcxWorker::ReapClosing() {
  std::erase_if(closing_, [](void* request) {
    if (Ucx().ucp_request_check_status(request) == UCS_INPROGRESS) return false;
    Ucx().ucp_request_free(request);
    return true;
  });
}

void UcxWorker::Progress(int max_calls) {
  for (int call = 0; call < max_calls && Ucx().ucp_worker_progress(worker_) != 0; ++call) {
  }
  if (!closing_.empty()) ReapClosing();
}

bool UcxWorker::Arm() { return Ucx().ucp_worker_arm(worker_) == UCS_OK; }

void UcxWorker::CloseEndpoint(ucp_ep_h endpoint, bool force) {
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  params.flags = force ? UCP_EP_CLOSE_FLAG_FORCE : 0;
  void* request = Ucx().ucp_ep_close_nbx(endpoint, &params);
  if (UCS_PTR_IS_PTR(request)) closing_.push_back(request);
}

}  // namespace baton::kvtransfer
