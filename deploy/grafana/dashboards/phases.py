"""The six phases: their means, shares and quantiles, and that they add up."""

from panels import (PHASES, Column, Query, dashboard, heatmap, quantile, quantiles, row, table, timeseries)

from .overview import E2E, ITL, TTFT, objective

SUM, COUNT = "job_phase:baton_phase_seconds_sum:rate5m{@%s}", "job_phase:baton_phase_seconds_count:rate5m{@%s}"
BUCKETS = "job_phase_le:baton_phase_seconds_bucket:rate5m{@%s}"
MEANING = {
    "queue": "From a request's arrival until the router had chosen the workers of the last attempt.",
    "admission": "Until the decode worker had reserved blocks and a slot and the prefill worker could start.",
    "prefill": "From the start of the prompt to its first token.",
    "transfer": "From the first token until the decode worker had the whole KV: the part that prefill does not hide.",
    "decode": "From then to the last token.",
    "network": "The remainder: the router itself, its clients, and the way between processes.",
}


def of(name):
    return f', phase="{name}"'


ALL = [
    timeseries("Mean of each phase",
               "Mean time that a request spent in each phase, stacked: the phases are contiguous.",
               [Query(f"sum({SUM % of(name)}) / sum({COUNT % of(name)})", name)
                for name in PHASES], "s", size=(12, 10), stacked="normal", colors=PHASES),
    timeseries("Share of each phase", "How the time of all requests divides into phases.",
               [Query(f"sum({SUM % of(name)})", name) for name in PHASES], "percentunit", size=(12, 10),
               stacked="percent", colors=PHASES),
    table("Phases over the last five minutes", "Share is the phase's share of all time that requests spent.",
          {"phase": "Phase"}, [
              Column("Mean", f"sum by (phase) ({SUM % ''}) / sum by (phase) ({COUNT % ''})", "s"),
              *(Column(f"P{100 * share:g}", quantile(share, BUCKETS % "", "phase"), "s") for share in (0.5, 0.9, 0.99)),
              Column("Share", f"sum by (phase) ({SUM % ''}) / ignoring (phase) group_left () sum({SUM % ''})",
                     "percentunit", bar=1, decimals=1)
          ], size=(12, 8), sort="Share"),
    timeseries("Phases laid end to end, beside the whole",
               "Mean of the six phases together, and the mean end-to-end time. The two lines lie on each other.", [
                   Query(f"sum({SUM % ''}) / sum({COUNT % of('network')})", "sum of the phases"),
                   Query(
                       "sum(rate(vllm:e2e_request_latency_seconds_sum{@}[5m])) / "
                       "sum(rate(vllm:e2e_request_latency_seconds_count{@}[5m]))", "end to end")
               ], "s", size=(12, 8), colors={}),
]

EACH = [row("Each phase")] + [
    timeseries(name.capitalize(), MEANING[name],
               [*quantiles(BUCKETS % of(name)),
                Query(f"sum({SUM % of(name)}) / sum({COUNT % of(name)})", "mean")], "s", size=(8, 8)) for name in PHASES
]

LATENCIES = [
    row("What the client sees"),
    timeseries("Time to first token", "From a request's arrival to its first token, beside the objective.",
               [*quantiles(TTFT), objective("ttft")], "s", size=(8, 8)),
    timeseries("Time between tokens", "Between two tokens of a request, beside the objective for a request's mean.",
               [*quantiles(ITL), objective("itl")], "s", size=(8, 8)),
    timeseries("End to end", "From a request's arrival to its end.", quantiles(E2E), "s", size=(8, 8)),
    heatmap("Time to first token, distribution", "How many requests per second had their first token after how long.",
            TTFT, "s", size=(8, 9)),
    heatmap("Time between tokens, distribution", "How many tokens per second came how long after the one before.", ITL,
            "s", size=(8, 9)),
    heatmap("End to end, distribution", "How many requests per second ended after how long.", E2E, "s", size=(8, 9)),
    timeseries("Prompt length", "Prompt tokens of a request. Prefill time follows it.",
               quantiles("rate(vllm:request_prompt_tokens_bucket{@}[$__rate_interval])"), "short", size=(12, 8)),
    timeseries("Output length", "Output tokens of a request. Decode time follows it.",
               quantiles("rate(vllm:request_generation_tokens_bucket{@}[$__rate_interval])"), "short", size=(12, 8)),
]

DASHBOARD = dashboard("baton-phases", "Phases",
                      "Where the time of a request goes: six phases that add up to the whole.",
                      [*ALL, *EACH, *LATENCIES])
