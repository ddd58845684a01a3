// Serves the requests of clients, whatever protocol they speak: checks and tokenizes a request, hands its job to the
// router's loop, and writes the events of the job to the client's sink.
#ifndef BATON_ROUTER_GENERATOR_H_
#define BATON_ROUTER_GENERATOR_H_

#include <memory>

#include "common/clock.h"
#include "common/ids.h"
#include "common/random.h"
#include "router/generation.h"
#include "router/request_reader.h"
#include "router/router_loop.h"
#include "router/served_model.h"

namespace baton::router {

// Thread-safe.
class Generator {
 public:
  // All references outlive the generator and the loop's last task; `random` is thread-safe.
  Generator(const ServedModel& model, const Clock& clock, RandomSource& random, RouterLoop& loop)
      : reader_(model, random), clock_(clock), loop_(loop) {}

  // Checks and tokenizes on the caller's thread. `sink` hears how the request goes, also when it is refused.
  void Generate(GenerationRequest request, std::shared_ptr<GenerationSink> sink);
  // Ends the request with CANCELLED; does nothing when it has ended already. May block while the loop is overloaded.
  void Cancel(const JobId& id);

  const RequestReader& reader() const { return reader_; }

 private:
  const RequestReader reader_;
  const Clock& clock_;
  RouterLoop& loop_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_GENERATOR_H_
