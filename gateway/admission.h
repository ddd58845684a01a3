// Which clients the HTTP port lets in: the rules of common/rpc/call_policy.h over keys and certificates.
#ifndef BATON_GATEWAY_ADMISSION_H_
#define BATON_GATEWAY_ADMISSION_H_

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "common/rpc/credentials.h"
#include "gateway/http_types.h"

namespace baton::gateway {

// The keys that a request shows, each as the value of a header `authorization`: Anthropic's clients show theirs in
// x-api-key, which counts for that API alone. The request outlives it.
class ShownKeys {
 public:
  explicit ShownKeys(const HttpRequest& request);
  const std::vector<std::string_view>& values() const { return values_; }

 private:
  // What `values_` points at, where the request does not say it so.
  std::deque<std::string> made_;
  std::vector<std::string_view> values_;
};

// Refuses in the form of the path's API: 401 without a key or a certificate that is needed, 403 for a certificate
// without the role. The files of the web chat need no key, because a browser has none before it has the page.
// `credentials` are null without TLS, and outlive the server. What is returned is thread-safe.
HttpAdmission MakeAdmission(rpc::ServerGuard guard, const rpc::Credentials* credentials);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_ADMISSION_H_
