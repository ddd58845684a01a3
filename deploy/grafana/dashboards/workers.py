"""What each worker does: steps, batches, blocks, shared cores, and the process itself."""

from panels import (GREEN, PHASES, RED, WORKER_VARIABLES, YELLOW, Column, Query, dashboard, quantile, row, stat,
                    steps, table, timeseries)

BY = "sum by (instance, role) "
KINDS = {"prefill": PHASES["prefill"], "decode": PHASES["decode"], "mixed": "#b877d9"}
STATES = {"used": PHASES["prefill"], "cached": PHASES["queue"], "free": "#6b7280"}
SEQUENCES = {"running": GREEN, "waiting": YELLOW, "preempted": RED}
USE_STEPS = steps(GREEN, (0.8, YELLOW), (0.9, RED))


def rate(metric, more=""):
    return f"rate({metric}{{#{more}}}[$__rate_interval])"


def share(part, whole):
    return f"{BY}({rate(part)}) / ({BY}({rate(whole)}) > 0)"


ALL = [
    stat("Prefill", "Prefill workers that are members and serve.",
         'sum(baton_workers{@, role="prefill", state="serving"})', "short", size=(3, 4), decimals=0),
    stat("Decode", "Decode workers that are members and serve.",
         'sum(baton_workers{@, role="decode", state="serving"})', "short", size=(3, 4), decimals=0),
    stat("Mixed", "Mixed workers that are members and serve.", 'sum(baton_workers{@, role="mixed", state="serving"})',
         "short", size=(3, 4), decimals=0),
    stat("Draining", "Workers that end their requests and take no more.", 'sum(baton_workers{@, state="draining"})',
         "short", size=(3, 4), decimals=0, thresholds=steps(GREEN, (1, YELLOW))),
    stat("Lost in the last hour", "Memberships that ended otherwise than by draining.",
         'sum(increase(baton_worker_losses_total{@, reason!="drained"}[1h]))', "short", size=(3, 4), decimals=0,
         thresholds=steps(GREEN, (0.5, YELLOW), (2.5, RED)), link=("Failures", "baton-failures")),
    stat("Oldest step under way",
         "How long the step has taken that hangs longest. At 30 s the router gives the worker up.",
         "max(baton_engine_step_age_seconds{#})", "s", size=(3, 4), thresholds=steps(GREEN, (5, YELLOW), (15, RED))),
    stat("Orphaned blocks", "KV blocks that nothing accounts for. Always 0 unless there is a bug.",
         "sum(baton_orphaned_blocks{#})", "short", size=(3, 4), decimals=0, thresholds=steps(GREEN, (1, RED))),
    stat("KV use", "Used blocks of all blocks of the chosen workers.",
         'sum(baton_kv_blocks{#, state="used"}) / sum(baton_kv_blocks{#})', "percentunit", size=(3, 4),
         thresholds=USE_STEPS),
    table("Workers", "Each worker now; rates are those of the last five minutes.",
          {"instance": "Worker", "role": "Role"}, [
              Column("Member", f"{BY}(baton_router_connected{{#}})", "bool_yes_no", steps(RED, (1, GREEN))),
              Column("Running", f'{BY}(baton_engine_sequences{{#, state="running"}})'),
              Column("Waiting", f'{BY}(baton_engine_sequences{{#, state="waiting"}})'),
              Column("Prompt tokens left", f"{BY}(baton_pending_prompt_tokens{{#}})"),
              Column("KV use", f'{BY}(baton_kv_blocks{{#, state="used"}}) / {BY}(baton_kv_blocks{{#}})', "percentunit",
                     bar=1, decimals=0),
              Column("Steps/s", f"{BY}(rate(baton_engine_steps_total{{#}}[5m]))", decimals=1),
              Column("Tokens/s", f"{BY}(rate(baton_engine_rows_total{{#}}[5m]))", decimals=0),
              Column("Preemptions/s", f"{BY}(rate(baton_preemptions_total{{#}}[5m]))", "short",
                     steps(GREEN, (0.001, YELLOW)), decimals=2),
              Column("Step age", f"{BY}(baton_engine_step_age_seconds{{#}})", "s", steps(GREEN, (5, YELLOW),
                                                                                         (15, RED))),
              Column("Orphans", f"{BY}(baton_orphaned_blocks{{#}})", "short", steps(GREEN, (1, RED)))
          ], sort="KV use"),
]

ENGINE = [
    row("Engine"),
    timeseries("Steps", "Steps per second, by what their rows were.",
               [Query(f"sum by (kind) ({rate('baton_engine_steps_total')})", "{{kind}}")], "short", size=(8, 8),
               colors=KINDS),
    timeseries("Duration of a step, P99",
               "Duration that 99 % of the steps of each kind kept. Long mixed steps delay tokens.", [
                   Query(
                       quantile(0.99, "job_role_kind_le:baton_engine_step_seconds_bucket:rate5m{@, role=~\"$role\"}",
                                "role, kind"), "{{role}}, {{kind}}")
               ], "s", size=(8, 8), colors={}),
    timeseries("Duration of a step, mean", "Mean duration of a step of each worker.", [
        Query(f"{BY}({rate('baton_engine_step_seconds_sum')}) / ({BY}({rate('baton_engine_step_seconds_count')}) > 0)",
              "{{instance}}")
    ], "s", size=(8, 8), colors={}),
    timeseries("Rows", "Rows per second that steps computed: prompt tokens, and tokens of running sequences.",
               [Query(f"sum by (class) ({rate('baton_engine_rows_total')})", "{{class}}")], "short", size=(8, 8),
               colors=KINDS, stacked="normal"),
    timeseries("Batch", "Mean number of sequences in a step of each worker.",
               [Query(share("baton_engine_batch_sequences_sum", "baton_engine_batch_sequences_count"), "{{instance}}")],
               "short", size=(8, 8), colors={}),
    timeseries("Sequences", "Sequences of the chosen workers: in the batch, waiting for it, or preempted.",
               [Query("sum by (state) (baton_engine_sequences{#})", "{{state}}")], "short", size=(8, 8),
               colors=SEQUENCES, stacked="normal"),
    timeseries("Prompt tokens to compute", "Prompt tokens that each worker has accepted and not yet computed.",
               [Query("sum by (instance) (baton_pending_prompt_tokens{#})", "{{instance}}")], "short", size=(8, 8),
               colors={}),
    timeseries("Busy", "Share of the time in which the engine of each worker is in a step.",
               [Query(f"{BY}({rate('baton_engine_step_seconds_sum')})", "{{instance}}")], "percentunit", size=(8, 8),
               colors={}, maximum=1),
    timeseries("Step under way", "How long the step under way has taken. It rises where an engine hangs.",
               [Query("max by (instance) (baton_engine_step_age_seconds{#})", "{{instance}}")], "s", size=(8, 8),
               colors={}, thresholds=steps("transparent", (15, RED))),
]

BLOCKS = [
    row("KV blocks and prefix cache"),
    timeseries("KV use",
               "Share of each worker's blocks that requests, leases and reservations hold. Near 1 it preempts.",
               [Query('instance:baton_kv_blocks:used_ratio{#}', "{{instance}}")], "percentunit", size=(8, 8), colors={},
               maximum=1, thresholds=steps("transparent", (0.9, RED))),
    timeseries("Blocks by state",
               "All blocks of the chosen workers. The prefix cache gives its blocks up when others need "
               "them.", [Query("sum by (state) (baton_kv_blocks{#})", "{{state}}")], "short", size=(8, 8),
               colors=STATES, stacked="normal"),
    timeseries("KV memory in use", "Bytes of the used blocks of each worker.", [
        Query(
            'sum by (instance) (baton_kv_blocks{#, state="used"} * on (namespace, job, instance) group_left () '
            "baton_kv_block_bytes{#})", "{{instance}}")
    ], "bytes", size=(8, 8), colors={}),
    timeseries("Preemptions", "Running sequences that gave their blocks up for older ones and are computed again.",
               [Query(f"sum by (instance) ({rate('baton_preemptions_total')})", "{{instance}}")], "short", size=(8, 8),
               colors={}),
    timeseries("Prefix cache hits", "Share of the prompt tokens looked up that the prefix cache had.",
               [Query(share("baton_prefix_cache_hits_total", "baton_prefix_cache_queries_total"), "{{instance}}")],
               "percentunit", size=(8, 8), colors={}, maximum=1),
    timeseries(
        "As the router sees it", "Used blocks by the last heartbeat of each worker. Where it differs from the workers' "
        "own figure, heartbeats are late.",
        [Query('sum by (worker) (baton_worker_kv_blocks{@, state="used", role=~"$role"})', "{{worker}}")], "short",
        size=(8, 8), colors={}),
]

CORES = [
    row("Shared cores: where the workers of one machine take turns"),
    timeseries("Waiting for the cores",
               "Share of the time in which a worker waits for the shared cores. 0 where workers do "
               "not share them.",
               [Query(f"sum by (instance) ({rate('baton_core_wait_seconds_total')})", "{{instance}}")], "percentunit",
               size=(8, 8), colors={}),
    timeseries("Grants", "Times per second that a worker got the shared cores.",
               [Query(f"sum by (instance) ({rate('baton_core_grants_total')})", "{{instance}}")], "short", size=(8, 8),
               colors={}),
    timeseries("Yields", "Times per second that a step of prefill handed the cores to decode.",
               [Query(f"sum by (instance) ({rate('baton_core_yields_total')})", "{{instance}}")], "short", size=(8, 8),
               colors={}),
]

PROCESS = [
    row("Process"),
    timeseries("Cores in use", "CPU time per second: how many cores each process keeps busy, the router too.",
               [Query("sum by (instance) (rate(process_cpu_seconds_total{@}[$__rate_interval]))", "{{instance}}")],
               "short", size=(8, 8), colors={}),
    timeseries("Resident memory", "Memory of each process, without what it has not touched.",
               [Query("sum by (instance) (process_resident_memory_bytes{@})", "{{instance}}")], "bytes", size=(8, 8),
               colors={}),
    timeseries("Open file descriptors", "Share of the file descriptors that each process may have.",
               [Query("process_open_fds{@} / process_max_fds{@}", "{{instance}}")], "percentunit", size=(8, 8),
               colors={}, maximum=1, thresholds=steps("transparent", (0.8, RED))),
    table(
        "Processes", "Who runs, as what, and since when.", {
            "instance": "Process", "role": "Role", "version": "Version", "model": "Model", "numerics": "Numerics",
            "transport": "Transport"
        }, [
            Column(
                "Uptime",
                "max by (instance, role, version, model, numerics, transport) (baton_build_info{@} * on (namespace, "
                "job, instance) group_left () (time() - process_start_time_seconds{@}))", "s")
        ], size=(24, 7)),
]

DASHBOARD = dashboard("baton-workers", "Workers",
                      "What each worker does: steps, batches, blocks, shared cores, the process.",
                      [*ALL, *ENGINE, *BLOCKS, *CORES, *PROCESS], WORKER_VARIABLES)
