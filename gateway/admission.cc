#include "gateway/admission.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "gateway/api_document.h"
#include "gateway/api_of_path.h"
#include "gateway/web_chat.h"

namespace baton::gateway {

ShownKeys::ShownKeys(const HttpRequest& request) : values_(request.HeaderValues("authorization")) {
  if (!IsAnthropicPath(request.path)) return;
  for (const std::string_view key : request.HeaderValues("x-api-key")) {
    values_.push_back(made_.emplace_back(absl::StrCat("Bearer ", ToAbsl(key))));
  }
}

HttpAdmission MakeAdmission(rpc::ServerGuard guard, const rpc::Credentials* credentials) {
  return [guard = std::move(guard), credentials](const HttpRequest& head) -> std::optional<HttpResponse> {
    rpc::CallRules rules = guard.rules;
    if (IsWebChatPath(head.path) || IsApiDocumentPath(head.path)) rules.requires_key = false;
    rpc::Caller caller;
    caller.has_certificate = head.peer != nullptr;
    if (head.peer != nullptr && credentials != nullptr) caller.roles = credentials->RolesOf(head.peer->uris);
    if (NeedsKey(rules, head.path)) caller.key = guard.ReadKey(ShownKeys(head).values());
    const absl::Status status = Authorize(rules, head.path, caller);
    return status.ok() ? std::nullopt : std::optional(ErrorMakerOf(head.path)(status));
  };
}

}  // namespace baton::gateway
