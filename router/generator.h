// Serves the requests of clients, whatever protocol they speak: checks and tokenizes a request, hands its job to the
// router's loop, and writes the events of the job to the client's sink.
#ifndef BATON_ROUTER_GENERATOR_H_
#define BATON_ROUTER_GENERATOR_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "common/random.h"
#include "router/generation.h"
#include "router/generation_listener.h"
#include "router/journal.h"
#include "router/kept_job.h"
#include "router/kept_jobs.h"
#include "router/request_reader.h"
#include "router/router_loop.h"
#include "router/served_model.h"

namespace baton::router {

// Thread-safe.
class Generator final : public GenerationBackend {
 public:
  // All references outlive the generator, which outlives the loop's last task; `random` is thread-safe. The loop has
  // not started. Without a journal, jobs that are kept live as long as the process.
  Generator(const ServedModel& model, const Clock& clock, RandomSource& random, RouterLoop& loop,
            const LiveJobsOptions& kept = {}, Journal* journal = nullptr)
      : model_(model), reader_(model, random), clock_(clock), loop_(loop), kept_(kept, model, clock, loop, journal) {}

  // Before the first request: goes on with the jobs of a former router.
  void Recover(std::vector<JournaledJob> jobs);

  void Generate(GenerationRequest request, std::shared_ptr<GenerationSink> sink) override;
  // `sink` follows a job that an earlier request began. Any thread.
  void Resume(ResumeRequest request, std::shared_ptr<GenerationSink> sink);
  // Ends the request, or what resumes one, with CANCELLED; does nothing when it has ended already. A job that is kept
  // runs on. May block while the loop is overloaded.
  void Cancel(const JobId& id) override;

  const RequestReader& reader() const { return reader_; }
  const KeptJobs& kept() const { return kept_; }

 private:
  // On the loop. All choices are taken, or the request is refused.
  void SubmitChoices(const std::vector<PreparedJob>& prompts, int32_t choices, GenerationCall call,
                     Dispatcher& dispatcher);
  // Runs `task` on the loop, or refuses.
  void PostFor(const std::shared_ptr<GenerationSink>& sink, RouterLoop::Task task);

  const ServedModel& model_;
  const RequestReader reader_;
  const Clock& clock_;
  RouterLoop& loop_;
  KeptJobs kept_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_GENERATOR_H_
