// Messages that wait for their turn on a gRPC stream, which takes one write at a time.
#ifndef BATON_COMMON_RPC_WRITE_QUEUE_H_
#define BATON_COMMON_RPC_WRITE_QUEUE_H_

#include <cstddef>
#include <deque>
#include <utility>

#include "common/limits.h"

namespace baton::rpc {

// Not thread-safe: the stream's lock guards it.
template <typename Message>
class WriteQueue {
 public:
  // False when kMaxUnsentMessages are waiting already.
  bool Push(Message message) {
    if (messages_.size() >= kMaxUnsentMessages) return false;
    messages_.push_back(std::move(message));
    return true;
  }
  // The message to write now. Null while another is being written, and when none is waiting.
  const Message* Next() {
    if (writing_ || messages_.empty()) return nullptr;
    writing_ = true;
    return &messages_.front();
  }
  void WriteDone(bool ok) {
    writing_ = false;
    messages_.pop_front();
    if (!ok) messages_.clear();
  }
  bool idle() const { return !writing_ && messages_.empty(); }

 private:
  std::deque<Message> messages_;
  bool writing_ = false;
};

}  // namespace baton::rpc

#endif  // BATON_COMMON_RPC_WRITE_QUEUE_H_
