#include "gateway/admission.h"

#include <optional>
#include <utility>

#include "gateway/openai_response.h"

namespace baton::gateway {

HttpAdmission MakeAdmission(rpc::ServerGuard guard, const rpc::Credentials* credentials) {
  return [guard = std::move(guard), credentials](const HttpRequest& head) -> std::optional<HttpResponse> {
    rpc::Caller caller;
    caller.has_certificate = head.peer != nullptr;
    if (head.peer != nullptr && credentials != nullptr) caller.roles = credentials->RolesOf(head.peer->uris);
    if (NeedsKey(guard.rules, head.path)) caller.key = guard.ReadKey(head.HeaderValues("authorization"));
    const absl::Status status = Authorize(guard.rules, head.path, caller);
    return status.ok() ? std::nullopt : std::optional(OpenAiError(status));
  };
}

}  // namespace baton::gateway
