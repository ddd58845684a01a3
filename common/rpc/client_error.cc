#include "common/rpc/client_error.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace baton::rpc {
namespace {

// Whether gRPC itself wrote the message, at either end, when a deadline passed or a connection broke. gRPC's debug
// string says "received from peer" of these as well.
bool IsGrpcMessage(absl::string_view message) {
  for (const absl::string_view start :
       {"Deadline Exceeded", "Socket closed", "recvmsg:", "sendmsg:", "keepalive watchdog timeout"}) {
    if (absl::StartsWith(message, start)) return true;
  }
  return false;
}

// Whether the server's code has sent the status. gRPC says so nowhere else.
bool IsAnswer(const grpc::ClientContext& context, const grpc::Status& status) {
  return absl::StrContains(context.debug_error_string(), "Error received from peer") &&
         !IsGrpcMessage(status.error_message());
}

bool IsUnconnected(const std::string& message) {
  return absl::StrContains(message, "failed to connect") || absl::StrContains(message, "DNS resolution failed");
}

// `words` is all of it when it does not occur.
absl::string_view TextAfter(absl::string_view text, absl::string_view words) {
  const size_t at = text.rfind(words);
  return at == absl::string_view::npos ? text : text.substr(at + words.size());
}

absl::Status ExplainSilence(const grpc::Status& status, const std::string& target) {
  const std::string& message = status.error_message();
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return absl::DeadlineExceededError(absl::StrCat("router ", target, " did not answer in time"));
  }
  if (IsUnconnected(message)) {
    return absl::UnavailableError(absl::StrCat("router ", target, ": ", ConnectionTrouble(message),
                                               "; is `baton serve` running there? --target HOST:PORT names another"));
  }
  return absl::UnavailableError(absl::StrCat("router ", target, ": the connection broke (", message,
                                             "); send the request again, with --tls-ca if the router asks for TLS"));
}

}  // namespace

std::string ConnectionTrouble(const std::string& message) {
  absl::string_view text = TextAfter(message, "last error: ");
  for (const absl::string_view code : {"UNKNOWN: ", "UNAVAILABLE: "}) absl::ConsumePrefix(&text, code);
  if (absl::StrContains(text, "DNS resolution failed")) {
    return absl::StrCat("the name is not known (", TextAfter(text, ": "), ")");
  }
  return std::string(TextAfter(text, "Failed to connect to remote host: "));
}

absl::Status ExplainRouterError(const grpc::ClientContext& context, const grpc::Status& status,
                                const std::string& target) {
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  const bool is_silence = code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kDeadlineExceeded;
  if (is_silence && !IsAnswer(context, status)) return ExplainSilence(status, target);
  if (code == absl::StatusCode::kUnavailable) {
    return absl::UnavailableError(absl::StrCat("router ", target, ": ", status.error_message()));
  }
  // A router that refuses a field says in the details which.
  if (code == absl::StatusCode::kUnimplemented && status.error_details().empty()) {
    const std::string what = status.error_message().empty()
                                 ? "it answers, but not as a router, as if it were a --cluster-port"
                                 : status.error_message();
    return absl::UnimplementedError(
        absl::StrCat(target, ": ", what, "; --target names the --grpc-port of `baton serve` or `baton router`"));
  }
  const char* const advice =
      code == absl::StatusCode::kUnauthenticated ? "; --api-key-file or BATON_API_KEY has the key of a command" : "";
  return {code, absl::StrCat(absl::StatusCodeToString(code), ": ", status.error_message(), advice)};
}

}  // namespace baton::rpc
