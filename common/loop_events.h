// What the owner thread of a state waits for, beside what is posted to its mailbox.
#ifndef BATON_COMMON_LOOP_EVENTS_H_
#define BATON_COMMON_LOOP_EVENTS_H_

#include <cstdint>

namespace baton {

class LoopEvents {
 public:
  virtual ~LoopEvents() = default;

  // The owner alone: handles the next event; when none has happened, waits for one, for Wake, or until `timeout_ns` has
  // passed.
  virtual void Wait(int64_t timeout_ns) = 0;
  // From any thread: ends the owner's Wait; when the owner is not in it, its next one does not wait.
  virtual void Wake() = 0;
};

}  // namespace baton

#endif  // BATON_COMMON_LOOP_EVENTS_H_
