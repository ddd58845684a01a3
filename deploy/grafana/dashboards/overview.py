"""The whole service on one page, in the order of a request's way."""

from panels import (GREEN, OUTCOMES, PHASES, RED, YELLOW, Query, bars, dashboard, quantile, quantiles, row, stat, steps,
                    timeseries)

TTFT = "job_le:vllm_time_to_first_token_seconds_bucket:rate5m{@}"
ITL = "job_le:vllm_inter_token_latency_seconds_bucket:rate5m{@}"
E2E = "job_le:vllm_e2e_request_latency_seconds_bucket:rate5m{@}"
PHASE = "job_phase_le:baton_phase_seconds_bucket:rate5m{@, phase=\"%s\"}"
TTFT_STEPS, ITL_STEPS = steps(GREEN, (0.75, YELLOW), (1.5, RED)), steps(GREEN, (0.05, YELLOW), (0.1, RED))
GOODPUT_STEPS = steps(RED, (0.95, YELLOW), (0.99, GREEN))


def objective(name):
    return Query('max(baton_objective_seconds{@, objective="%s"})' % name, "objective")


def phase(name, description, **more):
    return timeseries(f"Time in {name}", description, quantiles(PHASE % name), "s", size=(8, 7),
                      link=("All phases", "baton-phases"), **more)


HEADLINE = [
    stat("Serves", "Whether some group of workers can take a request. The worst of the chosen clusters.",
         "min(baton_serving{@})", "none", size=(3, 4), filled=True, graph=False, thresholds=steps(RED, (1, GREEN)),
         mappings=[(0, "no", RED), (1, "yes", GREEN)], link=("Failures", "baton-failures")),
    stat(
        "Goodput", "Share of the requests of the last five minutes that ended well within both objectives.",
        'sum(job_objective:baton_requests_within_objective:ratio_rate5m{@, objective="both"}'
        " * on (namespace, job) group_left () job:baton_requests_judged:rate5m{@})"
        " / sum(job:baton_requests_judged:rate5m{@})", "percentunit", thresholds=GOODPUT_STEPS,
        link=("SLO and goodput", "baton-slo")),
    stat("TTFT P99", "Time to first token that 99 % of the requests of the last five minutes kept.",
         quantile(0.99, TTFT), "s", thresholds=TTFT_STEPS),
    stat("ITL P99", "Time between two tokens that 99 % of the tokens of the last five minutes kept.",
         quantile(0.99, ITL), "s", thresholds=ITL_STEPS),
    stat("E2E P99", "Time from arrival to end that 99 % of the requests of the last five minutes kept.",
         quantile(0.99, E2E), "s"),
    stat("Requests", "Requests per second that ended, in whatever way.",
         "sum(rate(baton_requests_total{@}[$__rate_interval]))", "reqps", decimals=2),
    stat("Output tokens", "Output tokens per second, as decoding workers compute them.",
         'sum(rate(baton_engine_rows_total{@, class="decode"}[$__rate_interval]))', "short", decimals=0),
    stat(
        "Failing", "Share of the requests of the last five minutes that failed or found no workers.",
        'sum(job_outcome:baton_requests:rate5m{@, outcome=~"failed|unavailable"})'
        " / sum(job_outcome:baton_requests:rate5m{@})", "percentunit",
        thresholds=steps(GREEN, (0.001, YELLOW), (0.01, RED)), link=("Failures", "baton-failures")),
    timeseries(
        "Where the time goes",
        "Mean time that a request spent in each phase. The phases are contiguous, so the stack is the mean "
        "end-to-end time.", [
            Query(
                'sum(job_phase:baton_phase_seconds_sum:rate5m{@, phase="%s"}) / '
                'sum(job_phase:baton_phase_seconds_count:rate5m{@, phase="%s"})' % (name, name), name)
            for name in PHASES
        ], "s", size=(16, 9), stacked="normal", colors=PHASES, link=("All phases", "baton-phases")),
    bars("Share of each phase", "Share of all time that requests spent, over the last five minutes.", [
        Query(
            'sum(job_phase:baton_phase_seconds_sum:rate5m{@, phase="%s"}) / '
            "sum(job_phase:baton_phase_seconds_sum:rate5m{@})" % name, name) for name in PHASES
    ], "percentunit", size=(8, 9), colors=PHASES, maximum=1),
]

QUEUE = [
    row("1 Queue: until the router has chosen workers"),
    timeseries(
        "Waiting and running", "Requests that wait for workers, and requests that workers compute.",
        [Query("sum(vllm:num_requests_waiting{@})", "waiting"),
         Query("sum(vllm:num_requests_running{@})", "running")], "short", size=(8, 7),
        colors={"waiting": YELLOW, "running": GREEN}),
    phase("queue", "Time until the router had chosen the workers of the last attempt."),
    timeseries("Requests by outcome", "How requests ended. Refused ones were never given to workers.",
               [Query("sum by (outcome) (rate(baton_requests_total{@}[$__rate_interval]))", "{{outcome}}")], "reqps",
               size=(8, 7), stacked="normal", colors=OUTCOMES, link=("Failures", "baton-failures")),
]

ADMISSION = [
    row("2 Admission: until blocks and a slot are reserved"),
    phase("admission",
          "Time until the decode worker had reserved blocks and a slot and the prefill worker could start."),
    timeseries("Attempts", "Placements of a request on workers, by how they ended. A refused one is placed again.",
               [Query("sum by (outcome) (rate(baton_attempts_total{@}[$__rate_interval]))", "{{outcome}}")], "reqps",
               size=(8, 7), stacked="normal", colors=OUTCOMES),
    timeseries(
        "KV use of decoding workers", "Share of KV blocks that requests, leases and reservations hold. "
        "Near 1, requests wait for blocks.",
        [Query('max by (instance) (instance:baton_kv_blocks:used_ratio{@, role=~"decode|mixed"})', "{{instance}}")],
        "percentunit", size=(8, 7), maximum=1, colors={}, thresholds=steps("transparent", (0.9, RED)),
        link=("Workers", "baton-workers")),
]

PREFILL = [
    row("3 Prefill: until the first token"),
    phase("prefill", "Time from the start of a prompt to its first token."),
    timeseries(
        "Prompt tokens", "Prompt tokens per second: all of them, and those that prefill computed rather than found in "
        "a cache.", [
            Query("sum(rate(vllm:prompt_tokens_total{@}[$__rate_interval]))", "all"),
            Query('sum(rate(baton_engine_rows_total{@, class="prefill"}[$__rate_interval]))', "computed")
        ], "short", size=(8, 7), colors={}),
    timeseries("Prompt tokens to compute", "Prompt tokens that each worker has accepted and not yet computed.",
               [Query('sum by (instance) (baton_pending_prompt_tokens{@, role=~"prefill|mixed"})', "{{instance}}")],
               "short", size=(8, 7), colors={}, link=("Workers", "baton-workers")),
]

TRANSFER = [
    row("4 Transfer: the part of the KV hand-off that prefill does not hide"),
    phase(
        "transfer",
        "Time from the first token until the decode worker had the whole KV. Most of a hand-off runs during "
        "prefill and is not in here."),
    timeseries("KV handed over", "Bytes per second of KV that decode workers pulled.",
               [Query("sum by (transport) (rate(baton_transfer_bytes_total{@}[$__rate_interval]))", "{{transport}}")],
               "Bps", size=(8, 7), colors={}, link=("Transfer matrix", "baton-transfers")),
    timeseries("Speed of a read", "Bytes over the time in which reads were under way: what the transport reaches.", [
        Query(
            "sum by (transport) (rate(baton_transfer_bytes_total{@}[$__rate_interval])) / "
            "sum by (transport) (rate(baton_transfer_read_seconds_total{@}[$__rate_interval]))", "{{transport}}")
    ], "Bps", size=(8, 7), colors={}, link=("Transfer matrix", "baton-transfers")),
]

DECODE = [
    row("5 Decode: from the first token to the last"),
    timeseries("Time between tokens", "Time between two tokens of a request, and the objective for its mean.",
               [*quantiles(ITL), objective("itl")], "s", size=(8, 7)),
    timeseries("Output tokens", "Output tokens per second, as each decoding worker computes them.", [
        Query('sum by (instance) (rate(baton_engine_rows_total{@, class="decode"}[$__rate_interval]))', "{{instance}}")
    ], "short", stacked="normal", size=(8, 7), colors={}),
    timeseries("Sequences of a step", "Mean number of sequences in one step of each worker that decodes.", [
        Query(
            'sum by (instance) (rate(baton_engine_batch_sequences_sum{@, role=~"decode|mixed"}[$__rate_interval])) '
            '/ sum by (instance) (rate(baton_engine_batch_sequences_count{@, role=~"decode|mixed"}'
            "[$__rate_interval]))", "{{instance}}")
    ], "short", size=(8, 7), colors={}, link=("Workers", "baton-workers")),
]

NETWORK = [
    row("6 Network: what remains of the request's time"),
    phase(
        "network",
        "The remainder of a request's time: what the router itself, its clients and the way between processes "
        "took."),
    timeseries("The router's loop",
               "Share of the time in which the router's one loop works. Near 1 it delays every token.",
               [Query("max by (job) (rate(baton_loop_busy_seconds_total{@}[$__rate_interval]))", "{{job}}")],
               "percentunit", size=(8, 7), maximum=1, colors={}, thresholds=steps("transparent", (0.8, RED))),
    timeseries(
        "Clients", "Streams of clients, and their connections.",
        [Query("sum(baton_client_streams{@})", "streams"),
         Query("sum(baton_client_connections{@})", "connections")], "short", size=(8, 7), colors={}),
]

DASHBOARD = dashboard("baton-overview", "Overview",
                      "The state of the service, then each phase in the order of a request's way.",
                      [*HEADLINE, *QUEUE, *ADMISSION, *PREFILL, *TRANSFER, *DECODE, *NETWORK])
