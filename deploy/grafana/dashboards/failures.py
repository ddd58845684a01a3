"""What went wrong, and what was lost: requests, attempts, workers, hand-offs, spans, log lines, processes."""

from panels import GREEN, OUTCOMES, RED, YELLOW, Column, Query, dashboard, row, stat, steps, table, timeseries

LOSSES = {"silent": YELLOW, "stalled": RED, "disconnected": "#f2803d", "drained": GREEN, "rejoined": "#b877d9", "fault": "#c4162a"}

# Labels of an alert that tell it from others. The alert that no router is there has no job.
ALERT = "alertname, severity, job, instance"
OURS = '{alertname=~"Baton.+", job=~"$job|"}'


def grown(metric, more=""):
    return f"increase({metric}{{@{more}}}[$__rate_interval])"


def last_hour(title, description, metric, more="", limit=0.5, color=RED):
    return stat(title, description, f"sum(increase({metric}{{@{more}}}[1h])) or vector(0)", "short", size=(4, 4),
                decimals=0, thresholds=steps(GREEN, (limit, color)))


NOW = [
    table("Alerts", "Alerts of Baton that wait or fire.",
          {"alertname": "Alert", "severity": "Severity", "job": "Cluster", "instance": "Process"}, [
              Column("Since", f"max by ({ALERT}) (ALERTS_FOR_STATE{OURS}) * 1000", "dateTimeFromNow"),
              Column(
                  "Fires", f'max by ({ALERT}) (ALERTS{OURS[:-1]}, alertstate="firing"}}) or 0 * max by ({ALERT}) '
                  f"(ALERTS_FOR_STATE{OURS})", "bool_yes_no")
          ], size=(24, 5), empty="no alert waits or fires"),
    last_hour("Failed requests", "Requests of the last hour that failed, or found no workers.", "baton_requests_total",
              ', outcome=~"failed|unavailable"'),
    last_hour("Refused requests", "Requests of the last hour that were refused or cut, whoever caused it.",
              "baton_refusals_total", color=YELLOW),
    last_hour("Lost workers", "Memberships of the last hour that ended otherwise than by draining.",
              "baton_worker_losses_total", ', reason!="drained"', color=YELLOW),
    last_hour("Failed hand-offs", "KV hand-offs of the last hour that failed.", "baton_transfer_failures_total"),
    last_hour("Lost spans", "Spans of the last hour that were dropped or that the collector did not take.",
              "baton_spans_total", ', result=~"dropped|failed"', color=YELLOW),
    stat("Orphaned blocks", "KV blocks that nothing accounts for. Always 0 unless there is a bug.",
         "sum(baton_orphaned_blocks{@})", "short", size=(4, 4), decimals=0, thresholds=steps(GREEN, (1, RED))),
]

REQUESTS = [
    row("Requests"),
    timeseries("Requests by outcome", "Requests per second that ended, by how they ended.",
               [Query("sum by (outcome) (rate(baton_requests_total{@}[$__rate_interval]))", "{{outcome}}")], "reqps",
               size=(8, 8), stacked="normal", colors=OUTCOMES),
    timeseries("Share that failed", "Share of the requests of the last five minutes by each outcome but ok.", [
        Query(
            'sum by (outcome) (job_outcome:baton_requests:rate5m{@, outcome!="ok"}) / on () group_left () '
            "sum(job_outcome:baton_requests:rate5m{@})", "{{outcome}}")
    ], "percentunit", size=(8, 8), colors=OUTCOMES, thresholds=steps("transparent", (0.01, RED))),
    timeseries("Refusals by reason", "Requests per second that were refused or cut, and why.",
               [Query("sum by (reason) (job_reason:baton_refusals:rate5m{@})", "{{reason}}")], "reqps", size=(8, 8),
               stacked="normal", colors={}),
    timeseries("Attempts by outcome",
               "Placements of a request on workers, by how they ended. A refused one is placed again.",
               [Query("sum by (outcome) (rate(baton_attempts_total{@}[$__rate_interval]))", "{{outcome}}")], "reqps",
               size=(8, 8), stacked="normal", colors=OUTCOMES),
    timeseries(
        "Attempts of a request", "Attempts per request that ended. 1 is best, and each one more costs a placement.", [
        Query(
            "sum(rate(baton_attempts_total{@}[$__rate_interval])) / "
            'sum(rate(baton_requests_total{@, outcome=~"ok|failed|unavailable|cancelled|deadline"}[$__rate_interval]))',
            "attempts")
    ], "short", size=(8, 8), colors={}),
    timeseries("What clients do not read", "Output that waits for clients, and requests that wait to be parsed.", [
        Query("sum(baton_unread_output_bytes{@})", "unread output"),
        Query("sum by (lane) (baton_client_work_queued_bytes{@})", "{{lane}} requests to parse")
    ], "bytes", size=(8, 8), colors={}),
]

CLUSTER = [
    row("Workers"),
    timeseries("Members", "Workers that are members, by role and state.",
               [Query("sum by (role, state) (baton_workers{@})", "{{role}}, {{state}}")], "short", size=(8, 8),
               colors={}),
    timeseries("Memberships that ended", "Memberships that ended, and why. `drained` is as it should be.",
               [Query(f"sum by (reason) ({grown('baton_worker_losses_total')})", "{{reason}}")], "short", size=(8, 8),
               colors=LOSSES),
    timeseries("Memberships that began", "Workers that joined, and workers that were refused.", [
        Query(f"sum by (role) ({grown('baton_worker_joins_total')})", "{{role}}"),
        Query(f"sum({grown('baton_workers_refused_total')})", "refused")
    ], "short", size=(8, 8), colors={"refused": RED}),
    timeseries("Failed hand-offs", "KV hand-offs that failed, by reason.",
               [Query(f"sum by (reason) ({grown('baton_transfer_failures_total')})", "{{reason}}")], "short",
               size=(8, 8), colors={}, link=("Transfer matrix", "baton-transfers"), empty="no hand-off has failed"),
    timeseries("Orphaned blocks", "KV blocks that no request, lease or reservation accounts for, by worker.", [
        Query("sum by (instance) (baton_orphaned_blocks{@})", "{{instance}}"),
        Query("sum by (worker) (baton_worker_orphaned_blocks{@})", "{{worker}}, by the router")
    ], "short", size=(8, 8), colors={}),
    timeseries("Serves", "1 while some group of workers can take a request.",
               [Query("min by (job) (baton_serving{@})", "{{job}}")], "short", size=(8, 8), colors={}, maximum=1),
]

LOST = [
    row("What observing loses"),
    timeseries("Spans", "Spans by what became of them. Dropped ones were never sent; failed ones were not taken.",
               [Query("sum by (result) (rate(baton_spans_total{@}[$__rate_interval]))", "{{result}}")], "short",
               size=(8, 8), colors={"exported": GREEN, "dropped": YELLOW, "failed": RED}),
    timeseries("Log lines left out", "Log lines that the limit of lines a second left out.",
               [Query(f"sum by (instance) ({grown('baton_log_lines_dropped_total')})", "{{instance}}")], "short",
               size=(8, 8), colors={}),
    timeseries("Scrapes", "1 while Prometheus reaches a process's admin port.",
               [Query('min by (instance) (up{@} and on (namespace, job) baton_build_info{@})', "{{instance}}")],
               "short", size=(8, 8), colors={}, maximum=1),
    timeseries("Starts", "Times that a process started again at the same address.",
               [Query("sum by (instance) (changes(process_start_time_seconds{@}[$__rate_interval]))", "{{instance}}")],
               "short", size=(12, 7), colors={}),
    timeseries(
        "What telemetry costs", "CPU time per second of the threads that serve the admin port and export spans, "
        "as a share of one core.",
        [Query("sum by (instance) (rate(baton_telemetry_cpu_seconds_total{@}[$__rate_interval]))", "{{instance}}")],
        "percentunit", size=(12, 7), colors={}),
]

DASHBOARD = dashboard("baton-failures", "Failures", "What went wrong, and what was lost.",
                      [*NOW, *REQUESTS, *CLUSTER, *LOST])
