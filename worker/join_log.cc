#include "worker/join_log.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/duration_text.h"
#include "common/rpc/client_error.h"

namespace baton::worker {
namespace {

bool IsAway(const absl::Status& why) {
  return absl::IsUnavailable(why) || absl::IsCancelled(why) || absl::IsDeadlineExceeded(why);
}

}  // namespace

JoinLog::JoinLog(std::string router, const Clock& clock)
    : router_(std::move(router)),
      clock_(clock),
      apart_since_(clock.Now()),
      next_complaint_(After(apart_since_, kQuietMs)),
      what_("it does not answer") {}

std::optional<LogLine> JoinLog::OnNotJoined(const absl::Status& why) {
  const std::string message(why.message());
  if (IsAway(why)) return Note(Trouble::kAway, rpc::ConnectionTrouble(message));
  return Note(Trouble::kRefused, absl::IsUnimplemented(why)
                                     ? "no worker can join there: --router names the router's --cluster-port"
                                     : message);
}

std::optional<LogLine> JoinLog::OnStuck(int64_t step_age_ms) {
  return Note(Trouble::kStuck, absl::StrCat("its engine has been in one step for ", step_age_ms / 1'000, " s"));
}

// The words for a router that is away vary from attempt to attempt, and the age of a step grows.
std::optional<LogLine> JoinLog::Note(Trouble trouble, std::string what) {
  const bool is_news =
      trouble != Trouble::kAway && (trouble != trouble_ || (trouble == Trouble::kRefused && what != what_));
  trouble_ = trouble;
  what_ = std::move(what);
  if (is_news) return Complain();
  return std::nullopt;
}

std::optional<LogLine> JoinLog::OnTick() {
  if (clock_.Now() < next_complaint_) return std::nullopt;
  return Complain();
}

LogLine JoinLog::Complain() {
  const TimeNs now = clock_.Now();
  const bool is_again = std::exchange(has_complained_, true);
  next_complaint_ = After(now, kRepeatMs);
  const std::string since = DurationText(now - apart_since_);
  const std::string still = is_again ? absl::StrCat("; still asking, after ", since) : "; asking again";
  switch (trouble_) {
    case Trouble::kAway:
      return {LogLine::Level::kWarning,
              absl::StrCat("cannot reach the router at ", router_, " for ", since, ": ", what_,
                           "; is `baton router` running there, and is this its --cluster-port? Asking on")};
    case Trouble::kRefused:
      return {LogLine::Level::kError, absl::StrCat("the router at ", router_, " refuses this worker: ", what_, still)};
    case Trouble::kStuck:
      break;
  }
  return {LogLine::Level::kError, absl::StrCat("this worker does not ask the router at ", router_,
                                               " to join before its engine moves: ", what_)};
}

LogLine JoinLog::OnJoined() {
  trouble_ = Trouble::kAway;
  const std::string joined = absl::StrCat("joined the router at ", router_);
  if (!has_complained_) return {LogLine::Level::kInfo, joined};
  return {LogLine::Level::kInfo, absl::StrCat(joined, " after ", DurationText(clock_.Now() - apart_since_))};
}

LogLine JoinLog::OnEnded(const absl::Status& why) {
  apart_since_ = clock_.Now();
  next_complaint_ = After(apart_since_, kQuietMs);
  has_complained_ = false;
  what_ = "it does not answer";
  if (why.ok()) return {LogLine::Level::kInfo, absl::StrCat("left the router at ", router_)};
  return {absl::IsCancelled(why) ? LogLine::Level::kInfo : LogLine::Level::kWarning,
          absl::StrCat("the router at ", router_, " ended the membership: ", why.message(), "; joining again")};
}

}  // namespace baton::worker
