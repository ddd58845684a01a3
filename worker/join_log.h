// What a worker says about its membership, in one line each, so that whoever reads its log knows what it waits for. It
// asks to join up to ten times a second and says so at a bounded rate. No I/O: the owner logs the lines.
//
//   the worker is | event                         | says
//   --------------+-------------------------------+--------------------------------------------------------------------
//   apart         | kQuietMs have passed          | warning: it cannot reach the router, why, and what to do
//   apart         | refused for another reason    | error at once: who refused it, why, and what to do
//                 | than the last                 |
//   apart         | its own engine is stuck       | error: it does not ask to join before the engine moves
//   apart         | kRepeatMs since the last line | the line again, with the time that it has lasted
//   apart         | joined                        | info; how long it took when it had complained
//   member        | the stream ends               | why; a warning unless the router ended it in good order
#ifndef BATON_WORKER_JOIN_LOG_H_
#define BATON_WORKER_JOIN_LOG_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/clock.h"

namespace baton::worker {

struct LogLine {
  enum class Level : uint8_t { kInfo, kWarning, kError };

  Level level = Level::kInfo;
  std::string text;
};

// Used by one thread.
class JoinLog {
 public:
  // A router that starts together with its workers is away this long.
  static constexpr int64_t kQuietMs = 2'000;
  static constexpr int64_t kRepeatMs = 30'000;

  // The worker is apart from now on. `router` is host:port; `clock` outlives the log.
  JoinLog(std::string router, const Clock& clock);

  // The router did not take the worker. UNAVAILABLE and CANCELLED mean that it is away, others that it refused.
  std::optional<LogLine> OnNotJoined(const absl::Status& why);
  // The worker does not even ask: its engine has been in one step for so long.
  std::optional<LogLine> OnStuck(int64_t step_age_ms);
  // Several times a second while the worker is apart.
  std::optional<LogLine> OnTick();
  LogLine OnJoined();
  // The membership has ended. OK: the worker itself has left.
  LogLine OnEnded(const absl::Status& why);

 private:
  enum class Trouble : uint8_t { kAway, kRefused, kStuck };

  // Keeps the trouble; a line when it is news.
  std::optional<LogLine> Note(Trouble trouble, std::string what);
  LogLine Complain();

  const std::string router_;
  const Clock& clock_;
  TimeNs apart_since_ = 0;
  TimeNs next_complaint_ = 0;
  bool has_complained_ = false;
  Trouble trouble_ = Trouble::kAway;
  std::string what_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_JOIN_LOG_H_
