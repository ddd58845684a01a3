// Who may call what: the roles that certificates carry, and the table of calls that each role may make. One pure
// function decides for every port of every process.
//
// A role is a URI among the subject alternative names of a certificate, in the form of a SPIFFE ID:
//
//   spiffe://TRUST-DOMAIN/baton/ROLE
//
// where ROLE is router, prefill-worker, decode-worker, mixed-worker, client or operator. A certificate may carry
// several, where one certificate serves several processes. Roles of another trust domain than that of the process's own
// certificate do not count.
//
//   port     | service                          | who may call
//   ---------+----------------------------------+----------------------------------------------------------------------
//   clients  | grpc.health.v1.Health            | everybody
//   clients  | baton.v1.AdminService, method    | operator
//            | DrainWorker                      |
//   clients  | its other methods                | operator, router, and those of the next line
//   clients  | all others: GenerationService,   | who shows a key, where keys are required; with required certificates
//            | reflection, and unknown ones     | also of the role client or operator
//   http     | the paths /health, /ping and     | everybody
//            | /version                         |
//   http     | all other paths                  | as all other services of `clients`
//   cluster  | ClusterService                   | prefill-worker, decode-worker, mixed-worker
//   worker   | KvService, KvReadService,        | decode-worker, mixed-worker
//            | KvPairService                    |
//   worker   | grpc.health.v1.Health            | every certificate, of any role or none
//   cluster, | all others                       | operator, router, prefill-worker, decode-worker, mixed-worker
//   worker   |                                  |
//
// Without a right to call: UNAUTHENTICATED when a key or any certificate is missing, else PERMISSION_DENIED. The ports
// `cluster` and `worker` also refuse, in the handshake, every connection without a certificate of the cluster's
// authority.
#ifndef BATON_COMMON_RPC_CALL_POLICY_H_
#define BATON_COMMON_RPC_CALL_POLICY_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace baton::rpc {

enum class Role : uint8_t { kRouter, kPrefillWorker, kDecodeWorker, kMixedWorker, kClient, kOperator };

class RoleSet {
 public:
  constexpr RoleSet() = default;
  constexpr RoleSet(std::initializer_list<Role> roles) {
    for (const Role role : roles) Add(role);
  }
  constexpr void Add(Role role) { bits_ |= Bit(role); }
  constexpr bool Has(Role role) const { return (bits_ & Bit(role)) != 0; }
  constexpr bool HasAny(RoleSet others) const { return (bits_ & others.bits_) != 0; }
  constexpr bool HasAll(RoleSet others) const { return (bits_ & others.bits_) == others.bits_; }
  constexpr bool empty() const { return bits_ == 0; }
  friend constexpr bool operator==(RoleSet a, RoleSet b) = default;

 private:
  static constexpr uint8_t Bit(Role role) { return static_cast<uint8_t>(1u << static_cast<unsigned>(role)); }

  uint8_t bits_ = 0;
};

struct RoleUri {
  std::string_view trust_domain;
  Role role;
};

// "router or operator", with `between` = " or ".
std::string RoleNames(RoleSet roles, std::string_view between);

// nullopt for a URI that is no role of Baton.
std::optional<RoleUri> ParseRoleUri(std::string_view uri);

enum class Port : uint8_t { kClients, kHttp, kCluster, kWorker };

// What a port asks of its callers. The ports `cluster` and `worker` ask for certificates, whatever is said here.
struct CallRules {
  Port port = Port::kClients;
  bool requires_key = false;
  bool requires_certificate = false;
};

enum class KeyState : uint8_t { kNone, kUnknown, kKnown };

struct Caller {
  // A verified one.
  bool has_certificate = false;
  RoleSet roles;
  KeyState key = KeyState::kNone;
};

// Whether the decision on `path` asks for the caller's key.
bool NeedsKey(const CallRules& rules, std::string_view path);

// `path` names service and method, as "/baton.v1.AdminService/GetStatus", or is the path of a request of HTTP, without
// its query.
absl::Status Authorize(const CallRules& rules, std::string_view path, const Caller& caller);

// The key in the value of an `authorization` header, "Bearer KEY"; nullopt when it is none.
std::optional<std::string_view> BearerKey(std::string_view authorization);
// The same of all `authorization` headers of one call. nullopt also when there are several: which of them would count?
std::optional<std::string_view> BearerKey(const std::vector<std::string_view>& authorizations);

}  // namespace baton::rpc

#endif  // BATON_COMMON_RPC_CALL_POLICY_H_
