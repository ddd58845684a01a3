// The messages that one API over gRPC makes of the events of a request. Each API has its own form; RpcAnswer knows only
// this.
#ifndef BATON_ROUTER_ANSWER_FORM_H_
#define BATON_ROUTER_ANSWER_FORM_H_

#include <grpcpp/grpcpp.h>

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "router/generation.h"

namespace baton::router {

// How an answer ends: with its last messages, of which there may be none, and with the status of its call. A call of
// several requests has a status of its own.
struct AnswerEnd {
  std::vector<grpc::ByteBuffer> messages;
  grpc::Status status;
};

// Used by one thread at a time.
class AnswerForm {
 public:
  virtual ~AnswerForm() = default;

  // All output comes with the end. Constant.
  virtual bool is_whole() const { return false; }
  // The end of one of several choices has a Chunk of its own, behind that of the choice's last output. Constant.
  virtual bool splits_ends() const { return false; }
  // Comes before all output. Without a value nothing is said.
  virtual std::optional<grpc::ByteBuffer> Begin(const GenerationAccepted& accepted) { return std::nullopt; }
  // The next output of an answer that is not whole.
  virtual grpc::ByteBuffer Chunk(const GenerationDelta& delta) = 0;
  // `outputs` has all of each choice, in order, when the answer is whole, and is empty otherwise. An answer to a unary
  // call has at most one message.
  virtual AnswerEnd End(absl::Span<const GenerationDelta> outputs, const GenerationFinished& finished) = 0;
  // The request has failed. The status is not OK.
  virtual AnswerEnd End(const absl::Status& status) = 0;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_ANSWER_FORM_H_
