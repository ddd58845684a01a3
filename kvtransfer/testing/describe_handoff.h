// What the tests of the two ends of a hand-off share.
#ifndef BATON_KVTRANSFER_TESTING_DESCRIBE_HANDOFF_H_
#define BATON_KVTRANSFER_TESTING_DESCRIBE_HANDOFF_H_

#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/ids.h"
#include "common/testing/manual_clock.h"
#include "kvtransfer/kv_sink.h"
#include "kvtransfer/kv_source.h"

namespace baton::kvtransfer {

inline JobKey KeyOf(uint64_t number) { return {.job = {.high = 7, .low = number}, .attempt = 1}; }
inline uint64_t NumberOf(const JobKey& key) { return key.job.low; }

// The secret of a job's attempt.
inline Id128 SecretOf(const JobKey& key) { return {.high = 99, .low = NumberOf(key)}; }

inline constexpr Incarnation kSourceIncarnation{.high = 11, .low = 12};

// Actions as short text, so that a test names all that an event causes: "Reply(1,Accepted) Grant(7,0)".
struct Describe {
  static std::string Code(const absl::Status& status) { return absl::StatusCodeToString(status.code()); }

  std::string operator()(const FetchAccepted&) const { return "Accepted"; }
  std::string operator()(const BlocksBegun& begun) const {
    std::string text = "Begun";
    for (const BlockBegun& block : begun.blocks) absl::StrAppend(&text, ":", block.index, "+", block.bytes);
    return text;
  }
  std::string operator()(const BlocksReady& ready) const {
    std::string text = "Ready";
    for (const BlockReady& block : ready.blocks) absl::StrAppend(&text, ":", block.index);
    return text;
  }
  std::string operator()(const FetchRenewed& renewed) const { return absl::StrCat("Renewed", renewed.sequence); }
  std::string operator()(const FetchComplete& complete) const { return absl::StrCat("Complete", complete.block_count); }
  std::string operator()(const FetchOpen&) const { return "Open"; }
  std::string operator()(const FetchRenew& renew) const { return absl::StrCat("Renew", renew.sequence); }
  std::string operator()(const FetchRelease&) const { return "Release"; }

  std::string operator()(const GrantLicence& a) const {
    return absl::StrCat("Grant(", NumberOf(a.key), ",", a.first_block, ")");
  }
  std::string operator()(const Revoke& a) const {
    return absl::StrCat("Revoke(", NumberOf(a.key), ",", Code(a.status), ")");
  }
  std::string operator()(const ReleaseBlocks& a) const { return absl::StrCat("Free(", NumberOf(a.key), ")"); }
  std::string operator()(const SendReply& a) const {
    return absl::StrCat("Reply(", a.stream, ",", std::visit(*this, a.reply), ")");
  }
  std::string operator()(const CloseStream& a) const {
    return absl::StrCat("Close(", a.stream, ",", Code(a.status), ")");
  }

  std::string operator()(const OpenStream& a) const { return absl::StrCat("Open(", a.stream, ")"); }
  std::string operator()(const SendRequest& a) const {
    return absl::StrCat("Send(", a.stream, ",", std::visit(*this, a.request), ")");
  }
  std::string operator()(const FinishStream& a) const { return absl::StrCat("Finish(", a.stream, ")"); }
  std::string operator()(const ConnectPeer& a) const { return absl::StrCat("Connect(", a.stream, ",", a.address, ")"); }
  std::string operator()(const StartRead& a) const {
    std::string text = absl::StrCat("Read(", a.stream, ",#", a.tag);
    for (const CopyRange& range : a.ranges) {
      absl::StrAppend(&text, ",", range.remote_offset, ">", range.local_offset, "+", range.bytes);
    }
    return text + ")";
  }
  std::string operator()(const Committed& a) const { return absl::StrCat("Commit(", NumberOf(a.key), ")"); }
  std::string operator()(const FetchFailed& a) const {
    return absl::StrCat("Fail(", NumberOf(a.key), ",", Code(a.status), ")");
  }
};

template <typename Action>
std::string DescribeAll(const std::vector<Action>& actions) {
  return absl::StrJoin(actions, " ", [](std::string* out, const Action& action) {
    absl::StrAppend(out, std::visit(Describe{}, action));
  });
}

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TESTING_DESCRIBE_HANDOFF_H_
