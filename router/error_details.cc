#include "router/error_details.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/rpc/wire.h"
#include "common/status.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace baton::router {
namespace {

constexpr int kRetryDelayMs = 500;

template <typename Detail>
grpc::Status WithDetail(grpc::StatusCode code, const std::string& message, const Detail& detail) {
  google::rpc::Status rich;
  rich.set_code(code);
  rich.set_message(message);
  rich.add_details()->PackFrom(detail);
  return {code, message, rich.SerializeAsString()};
}

}  // namespace

grpc::Status FieldViolation(std::string_view field, std::string_view description) {
  google::rpc::BadRequest detail;
  auto* violation = detail.add_field_violations();
  violation->set_field(std::string(field));
  violation->set_description(std::string(description));
  return WithDetail(grpc::StatusCode::INVALID_ARGUMENT, absl::StrCat(ToAbsl(field), ": ", ToAbsl(description)), detail);
}

grpc::Status ToClientStatus(const absl::Status& status) {
  if (!absl::IsResourceExhausted(status)) return rpc::ToGrpc(status);
  google::rpc::RetryInfo detail;
  detail.mutable_retry_delay()->set_nanos(kRetryDelayMs * 1'000'000);
  return WithDetail(grpc::StatusCode::RESOURCE_EXHAUSTED, std::string(status.message()), detail);
}

}  // namespace baton::router
