"""Objectives: goodput, how fast the error budget burns, and what misses cost."""

from panels import (GREEN, GREY, ORANGE, OUTCOMES, PHASES, RED, YELLOW, Query, dashboard, quantile, quantiles, row,
                    stat, steps, timeseries)

from .overview import GOODPUT_STEPS, ITL, TTFT, objective

JUDGED = "job:baton_requests_judged:rate%s{@}"
WINDOWS = ("5m", "30m", "1h", "6h", "1d", "3d")
BURN_STEPS = steps(GREEN, (1, YELLOW), (6, ORANGE), (14.4, RED))
NAMES = {"ttft": "TTFT", "itl": "ITL", "both": "Both"}


def within(name, window):
    """Of all chosen clusters: each counts by its requests."""
    return (f'sum(job_objective:baton_requests_within_objective:ratio_rate{window}{{@, objective="{name}"}} * on '
            f"(namespace, job) group_left () {JUDGED % window}) / sum({JUDGED % window})")


def burn(name, window):
    return f'max(job_objective:baton_error_budget:burn_rate{window}{{@, objective="{name}"}})'


GOODPUT = [
    *(stat(f"{label} kept", f"Share of the judged requests of the last hour that ended well and within: {label}.",
           within(name, "1h"), "percentunit", size=(4, 4), thresholds=GOODPUT_STEPS, decimals=2)
      for name, label in NAMES.items()),
    stat("Objective for TTFT", "The objective for the time to first token (--ttft-target-ms).",
         'max(baton_objective_seconds{@, objective="ttft"})', "s", size=(4, 4), graph=False),
    stat("Objective for ITL", "The objective for a request's mean time between tokens (--itl-target-ms).",
         'max(baton_objective_seconds{@, objective="itl"})', "s", size=(4, 4), graph=False),
    stat(
        "Judged requests",
        "Requests per second that the service could have kept the objectives for: without those that "
        "their client got wrong, gave up or did not read.", f"sum({JUDGED % '5m'})", "reqps", size=(4, 4), decimals=2),
    timeseries("Goodput", "Share of the judged requests that ended well and within each objective.",
               [Query(within(name, "5m"), label) for name, label in NAMES.items()], "percentunit", size=(12, 9),
               maximum=1, colors={"TTFT": PHASES["prefill"], "ITL": PHASES["decode"], "Both": GREY}),
    timeseries("Good requests", "Judged requests per second, and those of them that kept both objectives.", [
        Query(f"sum({JUDGED % '5m'})", "judged"),
        Query(
            'sum(job_objective:baton_requests_within_objective:ratio_rate5m{@, objective="both"} * on '
            f"(namespace, job) group_left () {JUDGED % '5m'})", "good")
    ], "reqps", size=(12, 9), colors={"judged": GREY, "good": GREEN}),
]

BURN = [row("Error budget: 1 spends it exactly; 14.4 over an hour, or 6 over six hours, wakes somebody")]
for _name in ("ttft", "itl"):
    BURN += [
        stat(f"{NAMES[_name]}, {_window}",
             f"How fast {NAMES[_name]} spends its error budget, over {_window}. The worst of the "
             "chosen clusters.", burn(_name,
                                      _window), "short", size=(4, 3), thresholds=BURN_STEPS, decimals=1, graph=False)
        for _window in WINDOWS
    ]
BURN += [
    timeseries(
        f"Burn rate of {NAMES[_name]}", "How many times faster than allowed requests miss the objective. The alerts "
        "compare a long window with a short one.",
        [Query(burn(_name, window), window) for window in ("5m", "1h", "6h", "3d")], "short", size=(12, 8), colors={},
        thresholds=steps("transparent", (1, YELLOW), (6, ORANGE), (14.4, RED))) for _name in ("ttft", "itl")
]

WHY = [
    row("Why"),
    timeseries("Time to first token", "Its quantiles beside the objective.",
               [*quantiles(TTFT), objective("ttft")], "s", size=(8, 8), link=("All phases", "baton-phases")),
    timeseries("Time between tokens", "Its quantiles beside the objective.",
               [*quantiles(ITL), objective("itl")], "s", size=(8, 8), link=("All phases", "baton-phases")),
    timeseries("Judged requests that did not end well", "They miss every objective.", [
        Query('sum by (outcome) (job_outcome:baton_requests:rate5m{@, outcome=~"deadline|refused|unavailable|failed"})',
              "{{outcome}}")
    ], "reqps", size=(8, 8), stacked="normal", colors=OUTCOMES, link=("Failures", "baton-failures")),
    timeseries("Phases before the first token, P90", "Which of them makes first tokens late.", [
        Query(
            quantile(0.9, 'job_phase_le:baton_phase_seconds_bucket:rate5m{@, phase=~"queue|admission|prefill"}',
                     "phase"), "{{phase}}")
    ], "s", size=(12, 8), colors={name: PHASES[name] for name in ("queue", "admission", "prefill")}),
    timeseries(
        "Waiting and running", "What the workers have to do, and what waits for them.",
        [Query("sum(vllm:num_requests_waiting{@})", "waiting"),
         Query("sum(vllm:num_requests_running{@})", "running")], "short", size=(12, 8),
        colors={"waiting": YELLOW, "running": GREEN}),
]

DASHBOARD = dashboard("baton-slo", "SLO and goodput",
                      "Whether requests keep their objectives, and how fast the budget burns.", [*GOODPUT, *BURN, *WHY])
