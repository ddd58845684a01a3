// Decides when a step may use the cores: the seam between a model runner and whatever shares the machine with it.
#ifndef BATON_ENGINE_STEP_GATE_H_
#define BATON_ENGINE_STEP_GATE_H_

#include <cstdint>

namespace baton::engine {

// Called on the engine's owner thread, by its loop before and after a step and by the model runner within it; only
// ShouldYield and ShowLife may also be called by a kernel thread of the step, always by the same one.
class StepGate {
 public:
  virtual ~StepGate() = default;

  // Returns when the step may start.
  virtual void Enter() = 0;
  // Whether ShouldYield is ever true; if not, no step need ask. The same at every call.
  virtual bool yields() const = 0;
  // Whether others wait and it is their turn. It costs no more than a look at the clock, so a step may ask thousands of
  // times.
  virtual bool ShouldYield() = 0;
  // The step computes. A step that need not ask ShouldYield says so at least every few milliseconds, at the cost of a
  // store.
  virtual void ShowLife() {}
  // Lets others compute first. No thread of the step computes meanwhile.
  virtual void Yield() = 0;
  // The step has ended.
  virtual void Leave() = 0;
  // How often steps have yielded, how often Enter and Yield got the cores, and how long they took in all.
  virtual int64_t yield_count() const { return 0; }
  virtual int64_t grant_count() const { return 0; }
  virtual int64_t wait_ns() const { return 0; }
};

}  // namespace baton::engine

#endif  // BATON_ENGINE_STEP_GATE_H_
