#include "router/request_metrics.h"

#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::router {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int64_t kMs = kNsPerMs;

class RequestMetricsTest : public testing::Test {
 protected:
  std::string Text() const { return telemetry::RenderMetrics({registry_}); }
  static RequestRecord Served() {
    RequestRecord record;
    record.finish = FinishReason::kStop;
    record.prompt_tokens = 5;
    record.output_tokens = 8;
    record.ttft_ns = 30 * kMs;
    record.mean_itl_ns = 10 * kMs;
    record.phases = {.queue_ns = kMs,
                     .admission_ns = 2 * kMs,
                     .prefill_ns = 27 * kMs,
                     .transfer_ns = 3 * kMs,
                     .decode_ns = 67 * kMs};
    record.total_ns = 100 * kMs;
    JobResult job;
    job.prompt_tokens = 5;
    job.cached_tokens = 4;
    job.looked_up_tokens = 5;
    job.attempts = 3;
    job.refusals = 2;
    job.prefill_worker = "p:1";
    job.decode_worker = "d:1";
    job.decode.transfer_bytes = 4096;
    job.decode.read_ns = 2 * kMs;
    record.job = std::make_shared<const JobResult>(job);
    return record;
  }
  static RequestRecord Ended(const absl::Status& status) {
    RequestRecord record;
    record.status = status;
    record.outcome = OutcomeOf(status);
    return record;
  }

  const std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  RequestMetrics metrics_{{.model = "m", .ttft_target_ms = 50, .itl_target_ms = 9}, *registry_};
};

TEST_F(RequestMetricsTest, AServedRequestCountsInEveryMetricOfItsWay) {
  metrics_.OnFirstToken(30 * kMs);
  metrics_.OnNextToken(10 * kMs);
  metrics_.OnRequestEnded(Served());
  const std::string text = Text();
  for (const char* line :
       {"vllm:request_success_total{finished_reason=\"stop\",model_name=\"m\"} 1",
        "baton_requests_total{outcome=\"ok\"} 1", "vllm:prompt_tokens_total{model_name=\"m\"} 5",
        "vllm:generation_tokens_total{model_name=\"m\"} 2", "vllm:prefix_cache_queries_total{model_name=\"m\"} 5",
        "vllm:prefix_cache_hits_total{model_name=\"m\"} 4",
        "vllm:time_to_first_token_seconds_count{model_name=\"m\"} 1",
        "vllm:inter_token_latency_seconds_count{model_name=\"m\"} 1", "baton_phase_seconds_sum{phase=\"decode\"} 0.067",
        "baton_phase_seconds_count{phase=\"network\"} 1", "baton_attempts_total{outcome=\"refused\"} 2",
        "baton_attempts_total{outcome=\"ok\"} 1", "baton_transfer_pair_bytes_total{source=\"p:1\",target=\"d:1\"} 4096",
        "baton_requests_within_objective_total{objective=\"ttft\"} 1",
        // 10 ms a token are more than the 9 that were asked for.
        "baton_requests_within_objective_total{objective=\"itl\"} 0",
        "baton_requests_within_objective_total{objective=\"both\"} 0",
        "baton_objective_seconds{objective=\"ttft\"} 0.05"}) {
    EXPECT_THAT(text, HasSubstr(std::string(line) + "\n"));
  }
}

TEST_F(RequestMetricsTest, ARefusalCountsByItsReasonAndInNoTime) {
  metrics_.OnRequestEnded(Ended(WithReason(absl::ResourceExhaustedError("full"), RefusalReason::kQueueFull)));
  metrics_.OnRequestEnded(Ended(absl::InvalidArgumentError("bad")));
  metrics_.OnRequestEnded(Ended(WithReason(absl::UnavailableError("ends"), RefusalReason::kDraining)));
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("baton_requests_total{outcome=\"refused\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("baton_requests_total{outcome=\"unavailable\"} 1\n"));
  for (const char* reason : {"queue_full", "invalid", "draining"}) {
    EXPECT_THAT(text, HasSubstr("baton_refusals_total{reason=\"" + std::string(reason) + "\"} 1\n"));
  }
  EXPECT_THAT(text, HasSubstr("vllm:e2e_request_latency_seconds_count{model_name=\"m\"} 0\n"));
}

TEST_F(RequestMetricsTest, ARequestThatEndsInTheLineLostNoWorkerAndLookedNothingUp) {
  RequestRecord record = Ended(WithReason(absl::UnavailableError("nobody came"), RefusalReason::kNoWorkers));
  JobResult job;
  job.prompt_tokens = 100'000;
  job.attempts = job.refusals = 2;
  record.job = std::make_shared<const JobResult>(job);
  metrics_.OnRequestEnded(record);
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("baton_attempts_total{outcome=\"refused\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("baton_attempts_total{outcome=\"lost\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("vllm:prefix_cache_queries_total{model_name=\"m\"} 0\n"));
}

TEST_F(RequestMetricsTest, AnAttemptThatTheRoutersEndCutsLostNoWorker) {
  RequestRecord record = Ended(WithReason(absl::UnavailableError("ends"), RefusalReason::kDraining));
  JobResult job;
  job.attempts = 1;
  record.job = std::make_shared<const JobResult>(job);
  metrics_.OnRequestEnded(record);
  EXPECT_THAT(Text(), HasSubstr("baton_attempts_total{outcome=\"cancelled\"} 1\n"));
  EXPECT_THAT(Text(), HasSubstr("baton_attempts_total{outcome=\"lost\"} 0\n"));
}

TEST_F(RequestMetricsTest, AnAttemptThatFailedIsCountedAlsoWhenTheRequestWentOnElsewhere) {
  RequestRecord record = Ended(absl::OkStatus());
  JobResult job;
  job.attempts = 5;
  job.refusals = 1;
  job.failovers = 2;
  job.pauses = 1;
  record.job = std::make_shared<const JobResult>(job);
  metrics_.OnRequestEnded(record);
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("baton_attempts_total{outcome=\"refused\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("baton_attempts_total{outcome=\"lost\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("baton_attempts_total{outcome=\"paused\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("baton_attempts_total{outcome=\"ok\"} 1\n"));
}

TEST_F(RequestMetricsTest, ARequestThatEndsWhileItIsPausedHasNoOtherAttempt) {
  RequestRecord record = Ended(absl::ResourceExhaustedError("the client does not read"));
  JobResult job;
  job.attempts = job.pauses = 1;
  record.job = std::make_shared<const JobResult>(job);
  metrics_.OnRequestEnded(record);
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("baton_attempts_total{outcome=\"paused\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("baton_attempts_total{outcome=\"refused\"} 0\n"));
}

TEST_F(RequestMetricsTest, ARequestThatWentOnWithOtherNumericsIsCountedHoweverItEnded) {
  metrics_.OnRequestEnded(Served());
  EXPECT_THAT(Text(), HasSubstr("baton_requests_other_numerics_total 0\n"));
  for (const absl::Status& status : {absl::OkStatus(), absl::CancelledError("gone")}) {
    RequestRecord record = Ended(status);
    JobResult job;
    job.other_numerics_from = 7;
    record.job = std::make_shared<const JobResult>(job);
    metrics_.OnRequestEnded(record);
  }
  EXPECT_THAT(Text(), HasSubstr("baton_requests_other_numerics_total 2\n"));
}

TEST_F(RequestMetricsTest, ACancelledRequestIsNoRefusal) {
  metrics_.OnRequestEnded(Ended(absl::CancelledError("gone")));
  EXPECT_THAT(Text(), HasSubstr("baton_requests_total{outcome=\"cancelled\"} 1\n"));
  EXPECT_THAT(Text(), Not(HasSubstr("baton_refusals_total{reason=\"other\"} 1\n")));
}

TEST_F(RequestMetricsTest, PairsThatAreInUseAreToldApartHoweverManyHaveLeft) {
  for (size_t i = 0; i <= 2 * kMaxTransferPairs; ++i) {
    RequestRecord record = Served();
    JobResult job = *record.job;
    job.prefill_worker = "p:" + std::to_string(i);
    record.job = std::make_shared<const JobResult>(job);
    metrics_.OnRequestEnded(record);
    metrics_.OnRequestEnded(Served());
  }
  const std::string last = "source=\"p:" + std::to_string(2 * kMaxTransferPairs) + "\"";
  for (const char* name : {"bytes", "seconds", "reads"}) {
    EXPECT_THAT(Text(), HasSubstr("baton_transfer_pair_" + std::string(name) + "_total{" + last + ",target=\"d:1\"}"));
  }
  EXPECT_THAT(Text(), Not(HasSubstr("source=\"p:2\"")));
  // One hand-off of the loop's own pair and one after each.
  EXPECT_THAT(Text(), HasSubstr("baton_transfer_pair_reads_total{source=\"p:1\",target=\"d:1\"} " +
                                std::to_string(2 * kMaxTransferPairs + 2) + "\n"));
}

TEST_F(RequestMetricsTest, EveryOutcomeAndReasonIsThereFromTheBeginning) {
  const std::string text = Text();
  for (const RequestOutcome outcome : kRequestOutcomes) {
    EXPECT_THAT(text,
                HasSubstr("baton_requests_total{outcome=\"" + std::string(RequestOutcomeName(outcome)) + "\"} 0"));
  }
  for (const RefusalReason reason : kRefusalReasons) {
    EXPECT_THAT(text, HasSubstr("baton_refusals_total{reason=\"" + std::string(RefusalReasonName(reason)) + "\"} 0"));
  }
}

}  // namespace
}  // namespace baton::router
