#include "router/rpc_requests.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/test_delay.h"
#include "router/generation_listener.h"
#include "telemetry/trace_context.h"

namespace baton::router {
namespace {

// A stream that nobody reads or uses is cut late by at most this part of its time.
constexpr int kSweepsPerTimeout = 8;

std::vector<std::string_view> MetadataOf(const grpc::ServerContextBase& context, const char* key) {
  std::vector<std::string_view> values;
  const auto [begin, end] = context.client_metadata().equal_range(key);
  for (auto it = begin; it != end; ++it) values.emplace_back(it->second.data(), it->second.size());
  return values;
}

telemetry::TraceContext ReadTrace(const grpc::ServerContextBase& context) {
  return telemetry::ReadTraceContext({.traceparent = MetadataOf(context, telemetry::kTraceparentHeader),
                                      .tracestate = MetadataOf(context, telemetry::kTracestateHeader),
                                      .baggage = MetadataOf(context, telemetry::kBaggageHeader)});
}

}  // namespace

absl::Status Unparsable(const std::string& name) {
  return absl::InvalidArgumentError(absl::StrCat("this is no ", name, ": is every string in it UTF-8?"));
}

RpcRequests::RpcRequests(const RpcRequestsParts& parts, const UnreadOutputLimits& unread, int64_t max_idle_stream_ms)
    : parts_(parts), unread_(unread, parts.clock), open_calls_(max_idle_stream_ms, parts.clock) {
  const absl::Duration interval = absl::Milliseconds(std::min(unread.ended_ms, max_idle_stream_ms)) / kSweepsPerTimeout;
  sweeper_ = std::thread([this, interval] {
    while (!stopping_.WaitForNotificationWithTimeout(interval)) {
      unread_.Sweep();
      open_calls_.Sweep();
    }
  });
}

RpcRequests::~RpcRequests() {
  stopping_.Notify();
  sweeper_.join();
}

TimeNs RpcRequests::ReadDeadline(const grpc::ServerContextBase& context) const {
  const auto deadline = context.deadline();
  const auto wall_now = std::chrono::system_clock::now();
  // gRPC says "none" with a time point far away.
  if (deadline > wall_now + std::chrono::hours(24 * 7)) return kNever;
  const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - wall_now).count();
  return parts_.clock.Now() + std::max<int64_t>(left, 0);
}

absl::StatusOr<std::string> RpcRequests::TenantOf(const grpc::ServerContextBase& context) const {
  return AuthenticatedTenant(parts_.api_keys, MetadataOf(context, "authorization"));
}

void RpcRequests::Queue(const grpc::ServerContextBase& context, const std::shared_ptr<RpcAnswer>& answer,
                        grpc::ByteBuffer message, Begin begin) {
  const JobId id = parts_.random.NextId();
  const auto request =
      std::make_shared<ObservedRequest>(parts_.observers, answer, id, BeginTrace(parts_.tracer, ReadTrace(context)));
  const TimeNs deadline = ReadDeadline(context);
  absl::StatusOr<std::string> tenant = TenantOf(context);
  answer->SetOnDone([request](const absl::Status& delivery) { request->OnDelivered(delivery); });
  // The request lives until OnDone.
  answer->SetOnCancel([this, id, cancelled = request.get()] {
    if (!parts_.work.Drop(id)) return parts_.generator.Cancel(id);
    WriteFailed(absl::CancelledError("the client cancelled or is gone"), *cancelled);
  });
  if (!tenant.ok()) return WriteFailed(tenant.status(), *request);
  WorkTask task = {.id = id, .bytes = message.Length(), .deadline = deadline};
  task.run = [begin = std::move(begin),
              incoming = Incoming{.id = id, .deadline = deadline, .tenant = *std::move(tenant), .request = request},
              bytes = message](const absl::Status& status) mutable {
    if (!status.ok()) return WriteFailed(status, *incoming.request);
    TestDelay("read");
    begin(std::move(incoming), bytes);
  };
  if (!parts_.work.Post(std::move(task))) WriteFailed(ClientWorkFull(), *request);
}

void RpcRequests::Generate(Incoming incoming, GenerationRequest request) {
  request.id = incoming.id;
  request.authenticated_tenant = std::move(incoming.tenant);
  request.trace = HeadersOf(incoming.request->trace());
  request.arrived = incoming.request->arrived();
  request.deadline = std::min(request.deadline, incoming.deadline);
  incoming.request->OnRead(request);
  parts_.generator.Generate(std::move(request), incoming.request);
}

}  // namespace baton::router
