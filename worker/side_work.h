// What the engine's loop asks for and must not wait for.
#ifndef BATON_WORKER_SIDE_WORK_H_
#define BATON_WORKER_SIDE_WORK_H_

#include <cstddef>
#include <functional>

#include "common/ids.h"

namespace baton::worker {

// Prompts that have not started and whose grammars a prefill worker has compiled, or compiles.
inline constexpr int kMaxPreparedPrompts = 16;

// Used by the loop's thread.
class SideWork {
 public:
  using Task = std::function<void()>;

  virtual ~SideWork() = default;
  // Runs `work` beside the loop, behind what was posted before, and then what it returns on the loop's thread. Neither
  // once the loop has stopped. `bytes` is what the work holds while it waits. False: there is no room for it, so that
  // neither will run. Work that waits has an id of its own.
  [[nodiscard]] virtual bool Post(const Id128& id, size_t bytes, std::function<Task()> work) = 0;
  // Takes work back that has not begun.
  virtual void Drop(const Id128& id) = 0;
  // Nobody will hear of the work under way. Any thread.
  virtual bool is_stopping() const = 0;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_SIDE_WORK_H_
