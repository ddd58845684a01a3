#include "cli/status_probe.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/synchronization/notification.h"
#include "common/rpc/channel_cache.h"

namespace baton::cli {
namespace {

constexpr std::chrono::seconds kAnswerTimeout{5};

}  // namespace

struct StatusProbe::Call {
  grpc::ClientContext context;
  v1::GetStatusRequest request;
  v1::GetStatusResponse response;
  grpc::Status status;
  absl::Notification done;
};

StatusProbe::StatusProbe(std::string target, rpc::Credentials* credentials)
    : target_(std::move(target)), credentials_(credentials) {
  Connect();
}

void StatusProbe::Connect() {
  generation_ = credentials_ == nullptr ? 0 : credentials_->generation();
  stub_ = v1::AdminService::NewStub(grpc::CreateCustomChannel(
      target_, rpc::ChannelCredentialsOf(credentials_, rpc::Peer::kRouter), rpc::ClientChannelArguments()));
}

StatusProbe::~StatusProbe() {
  if (call_ == nullptr) return;
  call_->context.TryCancel();
  call_->done.WaitForNotification();
}

void StatusProbe::Poll(int64_t interval_ms) {
  if (call_ != nullptr) {
    if (!call_->done.HasBeenNotified()) return;
    has_result_ = true;
    answer_.reset();
    if (call_->status.ok()) answer_ = std::move(call_->response);
    call_.reset();
  }
  const TimeNs now = MonotonicClock().Now();
  if (now < next_ask_) return;
  next_ask_ = After(now, interval_ms);
  if (credentials_ != nullptr && credentials_->generation() != generation_) Connect();
  call_ = std::make_unique<Call>();
  call_->context.set_deadline(std::chrono::system_clock::now() + kAnswerTimeout);
  stub_->async()->GetStatus(&call_->context, &call_->request, &call_->response,
                            [call = call_.get()](const grpc::Status& status) {
                              call->status = status;
                              call->done.Notify();
                            });
}

bool StatusProbe::Lists(pid_t pid) const {
  return answer_.has_value() && std::any_of(answer_->workers().begin(), answer_->workers().end(),
                                            [pid](const v1::WorkerStatus& worker) { return worker.pid() == pid; });
}

}  // namespace baton::cli
