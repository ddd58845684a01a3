"""The KV hand-offs from prefill to decode workers, by pair and transport."""

from panels import (GREEN, RED, YELLOW, Column, Query, dashboard, heatmap, matrix, quantiles, row, stat, steps, table,
                    timeseries)

BYTES = "job_source_target:baton_transfer_pair_bytes:rate5m{@}"
SECONDS = "job_source_target:baton_transfer_pair_seconds:rate5m{@}"
READS = "job_source_target:baton_transfer_pair_reads:rate5m{@}"
BUCKETS = "job_transport_le:baton_transfer_seconds_bucket:rate5m{@}"
PAIR = "sum by (source, target) "
ALL_BYTES = "rate(baton_transfer_bytes_total{@}[$__rate_interval])"
READ_SECONDS = "rate(baton_transfer_read_seconds_total{@}[$__rate_interval])"
TAIL = ('(sum(rate(baton_phase_seconds_sum{@, phase="transfer"}[$__rate_interval])) / '
        'sum(rate(baton_phase_seconds_count{@, phase="transfer"}[$__rate_interval])))')
WHOLE = ("(sum(rate(baton_transfer_seconds_sum{@}[$__rate_interval])) / "
         "sum(rate(baton_transfer_seconds_count{@}[$__rate_interval])))")

HEADLINE = [
    stat("KV handed over", "Bytes per second that decode workers pulled.", f"sum({ALL_BYTES})", "Bps", size=(4, 4)),
    stat("Speed of a read", "Bytes over the time in which reads were under way.", f"sum({ALL_BYTES}) / sum({READ_SECONDS})",
         "Bps", size=(4, 4)),
    stat("Hand-offs", "Prompts per second whose KV was handed over.",
         "sum(rate(baton_transfers_total{@}[$__rate_interval]))", "reqps", size=(4, 4), decimals=2),
    stat("KV of a prompt", "Mean bytes of a hand-off.",
         f"sum({ALL_BYTES}) / sum(rate(baton_transfers_total{{@}}[$__rate_interval]))", "bytes", size=(4, 4)),
    stat("Hidden behind prefill", "Share of a hand-off that runs while the prompt is still computed, and so costs the client "
         "nothing: 1 less the phase transfer over the whole hand-off, both as means.",
         f"clamp(1 - {TAIL} / {WHOLE}, 0, 1)", "percentunit", size=(4, 4), thresholds=steps(RED, (0.3, YELLOW), (0.6, GREEN))),
    stat("Failed in the last hour", "Hand-offs that failed. One is worth a look.",
         "sum(increase(baton_transfer_failures_total{@}[1h]))", "short", size=(4, 4), decimals=0,
         thresholds=steps(GREEN, (0.5, RED)), link=("Failures", "baton-failures")),
]

PAIRS = [
    row("From prefill worker (rows) to decode worker (columns), over the last five minutes"),
    matrix("Bytes per second", "KV that went from a prefill worker to a decode worker. A pair without hand-offs has no cell.",
           BYTES, "Bps", row="source", column="target", size=(8, 9)),
    matrix("Speed of a read", "Bytes over the time in which reads of the pair were under way: a slow link stands out, however "
           "little it carries.", f"{BYTES} / ({SECONDS} > 0)", "Bps", row="source", column="target", size=(8, 9)),
    matrix("Hand-offs per second", "Prompts that went from a prefill worker to a decode worker: what placement did.", READS,
           "short", row="source", column="target", size=(8, 9), decimals=2),
    table("Pairs", "The same figures as a list. At most 256 pairs are told apart; the others are `other`.",
          {"source": "From", "target": "To"},
          [Column("Bytes per second", f"{PAIR}({BYTES})", "Bps", decimals=1),
           Column("Speed of a read", f"{PAIR}({BYTES}) / ({PAIR}({SECONDS}) > 0)", "Bps", decimals=1),
           Column("Hand-offs per second", f"{PAIR}({READS})", "short", decimals=2),
           Column("Bytes of one", f"{PAIR}({BYTES}) / ({PAIR}({READS}) > 0)", "bytes", decimals=1),
           Column("Share of time", f"{PAIR}({SECONDS})", "percentunit", decimals=1)],
          sort="Bytes per second", size=(24, 8)),
]

TIME = [
    row("By transport"),
    timeseries("KV handed over", "Bytes per second that decode workers pulled.",
               [Query(f"sum by (transport) ({ALL_BYTES})", "{{transport}}")], "Bps", size=(8, 8), colors={}, stacked="normal"),
    timeseries("Speed of a read", "Bytes over the time in which reads were under way.",
               [Query(f"sum by (transport) ({ALL_BYTES}) / sum by (transport) ({READ_SECONDS})", "{{transport}}")], "Bps",
               size=(8, 8), colors={}),
    timeseries("Failures", "Hand-offs that failed, by reason and transport.",
               [Query("sum by (reason, transport) (increase(baton_transfer_failures_total{@}[$__rate_interval]))",
                      "{{reason}}, {{transport}}")], "short", size=(8, 8), colors={}),
    timeseries("Duration of a hand-off", "From the first block that was ready at the source to the commit. Most of it runs "
               "during prefill.", quantiles(BUCKETS), "s", size=(8, 8)),
    timeseries("The hand-off and its tail", "Mean duration of a whole hand-off, and of the phase transfer, which is the part "
               "after the first token.", [Query(WHOLE, "whole"), Query(TAIL, "tail")], "s", size=(8, 8), colors={}),
    heatmap("Duration of a hand-off, distribution", "How many hand-offs per second took how long.", BUCKETS, "s",
            size=(8, 8)),
]

DASHBOARD = dashboard("baton-transfers", "Transfers", "KV hand-offs: who sends to whom, how fast, and what fails.",
                      [*HEADLINE, *PAIRS, *TIME])
