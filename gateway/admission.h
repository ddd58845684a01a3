// Which clients the HTTP port lets in: the rules of common/rpc/call_policy.h over keys and certificates.
#ifndef BATON_GATEWAY_ADMISSION_H_
#define BATON_GATEWAY_ADMISSION_H_

#include "common/rpc/credentials.h"
#include "gateway/http_types.h"

namespace baton::gateway {

// Refuses in the form of OpenAI's errors: 401 without a key or a certificate that is needed, 403 for a certificate
// without the role. `credentials` are null without TLS, and outlive the server. What is returned is thread-safe.
HttpAdmission MakeAdmission(rpc::ServerGuard guard, const rpc::Credentials* credentials);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_ADMISSION_H_
