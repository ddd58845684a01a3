#include "common/rpc/call_policy.h"

#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status.h"

namespace baton::rpc {
namespace {

constexpr std::array<std::string_view, 6> kRoleNames = {"router",       "prefill-worker", "decode-worker",
                                                        "mixed-worker", "client",         "operator"};
constexpr std::string_view kScheme = "spiffe://";
constexpr std::string_view kFolder = "/baton/";

constexpr std::string_view kHealth = "grpc.health.v1.Health";
constexpr std::string_view kAdmin = "baton.v1.AdminService";
// The one call of clients that changes anything for others.
constexpr std::string_view kDrainWorker = "/baton.v1.AdminService/DrainWorker";
constexpr std::string_view kCluster = "baton.internal.v1.ClusterService";
constexpr std::string_view kKv = "baton.internal.v1.KvService";
constexpr std::string_view kKvRead = "baton.internal.v1.KvReadService";
constexpr std::string_view kKvPair = "baton.internal.v1.KvPairService";

constexpr RoleSet kWorkers = {Role::kPrefillWorker, Role::kDecodeWorker, Role::kMixedWorker};
constexpr RoleSet kReaders = {Role::kDecodeWorker, Role::kMixedWorker};
constexpr RoleSet kInside = {Role::kRouter, Role::kOperator, Role::kPrefillWorker, Role::kDecodeWorker,
                             Role::kMixedWorker};
constexpr RoleSet kClients = {Role::kClient, Role::kOperator};
constexpr RoleSet kAdmins = {Role::kOperator, Role::kRouter};

// Empty for what is no path.
std::string_view ServiceOf(std::string_view path) {
  const size_t end = path.rfind('/');
  if (path.empty() || path.front() != '/' || end == 0) return {};
  return path.substr(1, end - 1);
}

absl::Status CheckRole(const Caller& caller, RoleSet allowed, std::string_view service) {
  if (!caller.has_certificate) return absl::UnauthenticatedError("show a certificate of the cluster's authority");
  if (caller.roles.HasAny(allowed)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("the certificate does not carry the role ",
                                                  RoleNames(allowed, " or "), ", which ", ToAbsl(service),
                                                  " asks for"));
}

// What a client has to show for all that is not open to everybody.
absl::Status CheckAccess(const CallRules& rules, std::string_view service, const Caller& caller) {
  if (rules.requires_certificate) {
    if (absl::Status checked = CheckRole(caller, kClients, service); !checked.ok()) return checked;
  }
  if (!rules.requires_key || caller.key == KeyState::kKnown) return absl::OkStatus();
  return absl::UnauthenticatedError(caller.key == KeyState::kNone
                                        ? "no API key: send it as the header `authorization: Bearer KEY`"
                                        : "this API key is not known");
}

absl::Status CheckClient(const CallRules& rules, std::string_view path, const Caller& caller) {
  const std::string_view service = ServiceOf(path);
  if (service == kHealth) return absl::OkStatus();
  if (path == kDrainWorker) return CheckRole(caller, {Role::kOperator}, service);
  if (service == kAdmin && caller.roles.HasAny(kAdmins)) return absl::OkStatus();
  return CheckAccess(rules, service, caller);
}

bool IsOpenPath(std::string_view path) { return path == "/health" || path == "/ping" || path == "/version"; }

}  // namespace

std::string RoleNames(RoleSet roles, std::string_view between) {
  std::string names;
  for (size_t i = 0; i < kRoleNames.size(); ++i) {
    if (!roles.Has(static_cast<Role>(i))) continue;
    absl::StrAppend(&names, names.empty() ? "" : ToAbsl(between), ToAbsl(kRoleNames[i]));
  }
  return names;
}

std::optional<RoleUri> ParseRoleUri(std::string_view uri) {
  if (!uri.starts_with(kScheme)) return std::nullopt;
  uri.remove_prefix(kScheme.size());
  const size_t slash = uri.find('/');
  if (slash == std::string_view::npos || slash == 0 || !uri.substr(slash).starts_with(kFolder)) return std::nullopt;
  const std::string_view name = uri.substr(slash + kFolder.size());
  for (size_t i = 0; i < kRoleNames.size(); ++i) {
    if (name == kRoleNames[i]) return RoleUri{.trust_domain = uri.substr(0, slash), .role = static_cast<Role>(i)};
  }
  return std::nullopt;
}

bool NeedsKey(const CallRules& rules, std::string_view path) {
  if (!rules.requires_key) return false;
  return rules.port == Port::kClients ? ServiceOf(path) != kHealth : rules.port == Port::kHttp && !IsOpenPath(path);
}

absl::Status Authorize(const CallRules& rules, std::string_view path, const Caller& caller) {
  if (rules.port == Port::kHttp) return IsOpenPath(path) ? absl::OkStatus() : CheckAccess(rules, path, caller);
  const std::string_view service = ServiceOf(path);
  if (service.empty()) return absl::PermissionDeniedError("the call names no method");
  switch (rules.port) {
    case Port::kClients:
      return CheckClient(rules, path, caller);
    case Port::kHttp:
      break;
    case Port::kCluster:
      return CheckRole(caller, service == kCluster ? kWorkers : kInside, service);
    case Port::kWorker:
      if (service == kHealth && caller.has_certificate) return absl::OkStatus();
      if (service == kKv || service == kKvRead || service == kKvPair) return CheckRole(caller, kReaders, service);
      return CheckRole(caller, kInside, service);
  }
  return absl::PermissionDeniedError("no such port");
}

std::optional<std::string_view> BearerKey(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() <= kScheme.size()) return std::nullopt;
  for (size_t i = 0; i < kScheme.size(); ++i) {
    const char c = authorization[i];
    if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c) != kScheme[i]) return std::nullopt;
  }
  return authorization.substr(kScheme.size());
}

std::optional<std::string_view> BearerKey(const std::vector<std::string_view>& authorizations) {
  return authorizations.size() == 1 ? BearerKey(authorizations.front()) : std::nullopt;
}

}  // namespace baton::rpc
