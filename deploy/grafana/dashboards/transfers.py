"""The KV hand-offs from prefill to decode workers, by pair and transport."""

from panels import (GREEN, RED, Column, Query, dashboard, heatmap, matrix, quantiles, row, stat, steps, table,
                    timeseries)

BYTES = "job_source_target:baton_transfer_pair_bytes:rate5m{@}"
SECONDS = "job_source_target:baton_transfer_pair_seconds:rate5m{@}"
READS = "job_source_target:baton_transfer_pair_reads:rate5m{@}"
BUCKETS = "job_transport_le:baton_transfer_seconds_bucket:rate5m{@}"
PAIR = "sum by (source, target) "
ALL_BYTES = "rate(baton_transfer_bytes_total{@}[$__rate_interval])"
EARLY_BYTES = "rate(baton_transfer_early_bytes_total{@}[$__rate_interval])"
READ_SECONDS = "rate(baton_transfer_read_seconds_total{@}[$__rate_interval])"
TAIL = ('sum(rate(baton_phase_seconds_sum{@, phase="transfer"}[$__rate_interval])) / '
        'sum(rate(baton_phase_seconds_count{@, phase="transfer"}[$__rate_interval]))')
READING = ("sum(rate(baton_transfer_seconds_sum{@}[$__rate_interval])) / "
           "sum(rate(baton_transfer_seconds_count{@}[$__rate_interval]))")

HEADLINE = [
    stat("KV handed over", "Bytes per second that decode workers pulled.", f"sum({ALL_BYTES})", "Bps", size=(4, 4)),
    stat("Speed of a read", "Bytes over the time in which reads were under way.",
         f"sum({ALL_BYTES}) / sum({READ_SECONDS})", "Bps", size=(4, 4)),
    stat("Hand-offs", "Prompts per second whose KV was handed over.",
         "sum(rate(baton_transfers_total{@}[$__rate_interval]))", "reqps", size=(4, 4), decimals=2),
    stat("KV of a prompt", "Mean bytes of a hand-off.",
         f"sum({ALL_BYTES}) / sum(rate(baton_transfers_total{{@}}[$__rate_interval]))", "bytes", size=(4, 4)),
    stat(
        "What the client waits for",
        "Mean of the phase transfer: the tail of a hand-off, after the first token. The rest of it "
        "runs while the prompt is still computed.", TAIL, "s", size=(4, 4)),
    stat("Failed in the last hour", "Hand-offs that failed. One is worth a look.",
         "sum(increase(baton_transfer_failures_total{@}[1h])) or vector(0)", "short", size=(4, 4), decimals=0,
         thresholds=steps(GREEN, (0.5, RED)), link=("Failures", "baton-failures")),
]

PAIRS = [
    row("From prefill worker (rows) to decode worker (columns), over the last five minutes"),
    matrix("Bytes per second",
           "KV that went from a prefill worker to a decode worker. A pair without hand-offs has no cell.", BYTES, "Bps",
           row="source", column="target", size=(8, 9)),
    matrix(
        "Speed of a read",
        "Bytes over the time in which reads of the pair were under way: a slow link stands out, however "
        "little it carries.", f"{BYTES} / ({SECONDS} > 0)", "Bps", row="source", column="target", size=(8, 9)),
    matrix("Hand-offs per second", "Prompts that went from a prefill worker to a decode worker: what placement did.",
           READS, "short", row="source", column="target", size=(8, 9), decimals=2),
    table("Pairs", "The same figures as a list. At most 256 pairs are kept; a further one replaces the pair that was "
          "unused longest.", {"source": "From", "target": "To"}, [
              Column("Bytes per second", f"{PAIR}({BYTES})", "Bps", decimals=1),
              Column("Speed of a read", f"{PAIR}({BYTES}) / ({PAIR}({SECONDS}) > 0)", "Bps", decimals=1),
              Column("Hand-offs per second", f"{PAIR}({READS})", "short", decimals=2),
              Column("Bytes of one", f"{PAIR}({BYTES}) / ({PAIR}({READS}) > 0)", "bytes", decimals=1),
              Column("Share of time", f"{PAIR}({SECONDS})", "percentunit", decimals=1)
          ], sort="Bytes per second", size=(24, 8)),
]

TIME = [
    row("By transport"),
    timeseries("KV handed over", "Bytes per second that decode workers pulled.",
               [Query(f"sum by (transport) ({ALL_BYTES})", "{{transport}}")], "Bps", size=(8, 8), colors={},
               stacked="normal"),
    timeseries("Speed of a read", "Bytes over the time in which reads were under way.",
               [Query(f"sum by (transport) ({ALL_BYTES}) / sum by (transport) ({READ_SECONDS})", "{{transport}}")],
               "Bps", size=(8, 8), colors={}),
    timeseries("Failures", "Hand-offs that failed, by reason and transport.", [
        Query("sum by (reason, transport) (increase(baton_transfer_failures_total{@}[$__rate_interval]))",
              "{{reason}}, {{transport}}")
    ], "short", size=(8, 8), colors={}, empty="no hand-off has failed"),
    timeseries(
        "Damaged blocks", "Blocks that differed from their digest. They were read again and never used. Any is worth a "
        "look at memory and network.", [
            Query("sum by (source, transport) (increase(baton_transfer_damaged_blocks_total{@}[$__rate_interval]))",
                  "{{source}}, {{transport}}")
        ], "short", size=(8, 8), colors={}),
    timeseries(
        "Reading and waiting", "Mean time in which the blocks of a prompt were read, and mean of the phase transfer, "
        "which is what the client waits for after the first token.",
        [Query(READING, "reading"), Query(TAIL, "phase transfer")], "s", size=(8, 8), colors={}),
    timeseries("Read time of a hand-off", "Time in which the blocks of a prompt were read.", quantiles(BUCKETS), "s",
               size=(8, 8)),
    timeseries(
        "Read within the step", "Share of the bytes that were read while the source still computed the last layers of their "
        "chunk. Sources on CPUs have none.",
        [Query(f"sum by (transport) ({EARLY_BYTES}) / sum by (transport) ({ALL_BYTES})", "{{transport}}")],
        "percentunit", size=(24, 6), colors={}),
    heatmap("Read time of a hand-off, distribution", "How many hand-offs per second were read for how long.", BUCKETS,
            "s", size=(24, 8)),
]

DASHBOARD = dashboard("baton-transfers", "Transfers", "KV hand-offs: who sends to whom, how fast, and what fails.",
                      [*HEADLINE, *PAIRS, *TIME])
