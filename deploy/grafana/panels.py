"""Grafana panels and dashboards as JSON, from short descriptions.

Queries write `{@}` for "of the clusters that are chosen above" and `{#}` for "of the workers that are chosen above".
More matchers follow after a comma, as in `{@, outcome="ok"}`. A panel whose queries return nothing while all is well
says so by `empty=TEXT`, which it then shows. Every other query has data on a loaded cluster, and a test relies on it.
"""

import dataclasses
import re

SCHEMA_VERSION = 38  # of Grafana 10; newer ones migrate it when they load it
GRID_COLUMNS = 24
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
SCOPES = {
    "{@": '{namespace=~"$namespace", job=~"$job"',
    "{#": '{namespace=~"$namespace", job=~"$job", role=~"$role", instance=~"$instance"',
}
GREEN, YELLOW, ORANGE, RED, BLUE, GREY = "#4caf7d", "#e0b400", "#f2803d", "#e24d5c", "#5794f2", "#8e96a3"
# The order of the request's way, in the hues of the router's own dashboard, which are told apart without seeing hues.
PHASES = {"queue": "#676a86", "admission": "#8ccfca", "prefill": "#4a6cf0", "transfer": "#f7ba3e", "decode": "#26b096",
          "network": "#b03ca6"}
OUTCOMES = {"ok": GREEN, "cancelled": GREY, "deadline": YELLOW, "refused": ORANGE, "unavailable": "#c4368b",
            "failed": RED, "lost": "#c4368b", "paused": BLUE}
QUANTILES = {"mean": GREY, "P50": GREEN, "P90": YELLOW, "P99": RED, "objective": "#b877d9"}


@dataclasses.dataclass(frozen=True)
class Query:
    """`legend` is Grafana's format of a series' name."""
    expr: str
    legend: str = ""


def in_scope(expr):
    for short, full in SCOPES.items():
        expr = re.sub(re.escape(short) + r"(?=[,}])", lambda _, full=full: full, expr)
    return expr


def quantile(share, buckets, by=""):
    """Of recorded or computed rates of buckets; `by` are the labels that the result keeps."""
    kept = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, sum by ({kept}) ({buckets}))"


def quantiles(buckets, shares=(0.5, 0.9, 0.99)):
    return [Query(quantile(share, buckets), f"P{100 * share:g}") for share in shares]


def steps(*limits):
    """Thresholds: steps("green", (0.5, "yellow"), (1, "red")) is green below 0.5."""
    base, *rest = limits
    return {"mode": "absolute",
            "steps": [{"color": base, "value": None}, *({"color": color, "value": value} for value, color in rest)]}


NO_STEPS = steps(BLUE)


def _targets(queries, **more):
    return [{"datasource": DATASOURCE, "editorMode": "code", "expr": in_scope(query.expr), "legendFormat": query.legend,
             "refId": chr(ord("A") + number), **more} for number, query in enumerate(queries)]


def _panel(kind, title, description, targets, defaults, options, size, overrides=(), transformations=(), link=None,
           empty=None):
    if empty is not None:
        defaults = {**defaults, "noValue": empty}
    panel = {"type": kind, "title": title, "description": description, "datasource": DATASOURCE, "targets": targets,
             "fieldConfig": {"defaults": defaults, "overrides": list(overrides)}, "options": options,
             "gridPos": {"w": size[0], "h": size[1], "x": 0, "y": 0}}
    if transformations:
        panel["transformations"] = list(transformations)
    if link is not None:
        panel["links"] = [{"title": link[0], "url": f"/d/{link[1]}?${{__url_time_range}}&${{__all_variables}}"}]
    return panel


def _override(name, **properties):
    return {"matcher": {"id": "byName", "options": name},
            "properties": [{"id": key.replace("__", "."), "value": value} for key, value in properties.items()]}


def _colored(colors):
    return [_override(name, color={"mode": "fixed", "fixedColor": color}) for name, color in colors.items()]


def timeseries(title, description, queries, unit, *, size=(12, 8), stacked=None, colors=None, thresholds=None,
               maximum=None, link=None, empty=None):
    """`stacked` is None, "normal" or "percent". A series named "objective" is drawn as a dashed line."""
    colors = QUANTILES if colors is None else colors
    custom = {"drawStyle": "line", "lineInterpolation": "linear", "lineWidth": 1 if stacked else 2, "pointSize": 4,
              "showPoints": "never", "spanNulls": False, "axisPlacement": "auto", "gradientMode": "none",
              "fillOpacity": 75 if stacked else 8, "stacking": {"group": "A", "mode": stacked or "none"},
              "scaleDistribution": {"type": "linear"},
              "thresholdsStyle": {"mode": "dashed" if thresholds else "off"}}
    defaults = {"unit": unit, "min": 0, "color": {"mode": "palette-classic"}, "custom": custom,
                "thresholds": thresholds or NO_STEPS}
    if maximum is not None:
        defaults["max"] = maximum
    dashed = _override("objective", custom__lineStyle={"fill": "dash", "dash": [10, 10]}, custom__fillOpacity=0)
    legends = {query.legend for query in queries}
    overrides = _colored({name: color for name, color in colors.items() if colors is not QUANTILES or name in legends})
    options = {"legend": {"showLegend": True, "displayMode": "table", "placement": "bottom",
                          "calcs": ["mean", "max", "lastNotNull"]},
               "tooltip": {"mode": "multi", "sort": "none" if stacked else "desc"}}
    return _panel("timeseries", title, description, _targets(queries), defaults, options, size,
                  [*overrides, *([dashed] if "objective" in legends else [])], link=link, empty=empty)


def stat(title, description, expr, unit, *, thresholds=None, size=(3, 4), mappings=None, decimals=None, link=None,
         legend="", filled=False, empty=None, graph=True):
    """One large figure, the newest, with its course behind it."""
    defaults = {"unit": unit, "color": {"mode": "thresholds"}, "thresholds": thresholds or NO_STEPS,
                "mappings": [{"type": "value", "options": {str(value): {"text": text, "color": color, "index": number}
                                                           for number, (value, text, color) in enumerate(mappings)}}]
                if mappings else []}
    if decimals is not None:
        defaults["decimals"] = decimals
    options = {"colorMode": "background" if filled else "value", "graphMode": "area" if graph else "none",
               "justifyMode": "auto", "orientation": "auto", "textMode": "auto",
               "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}}
    return _panel("stat", title, description, _targets([Query(expr, legend)]), defaults, options, size, link=link,
                  empty=empty)


def bars(title, description, queries, unit, *, size=(8, 8), thresholds=None, colors=None, maximum=None, empty=None):
    """Horizontal bars of the newest values."""
    defaults = {"unit": unit, "min": 0, "color": {"mode": "fixed" if colors else "thresholds"},
                "thresholds": thresholds or NO_STEPS}
    if maximum is not None:
        defaults["max"] = maximum
    options = {"displayMode": "basic", "orientation": "horizontal", "showUnfilled": True, "valueMode": "color",
               "minVizHeight": 10, "minVizWidth": 0,
               "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}}
    return _panel("bargauge", title, description, _targets(queries), defaults, options, size, _colored(colors or {}),
                  empty=empty)


def heatmap(title, description, buckets, unit, *, size=(12, 8)):
    """How the values of a histogram are distributed over time; `buckets` are rates, kept by `le`."""
    options = {"calculate": False, "cellGap": 1, "cellValues": {"unit": "reqps"}, "exemplars": {"color": ORANGE},
               "color": {"mode": "scheme", "scheme": "Spectral", "reverse": True, "exponent": 0.5, "steps": 64,
                         "fill": "dark-orange", "scale": "exponential"},
               "filterValues": {"le": 1e-9}, "legend": {"show": True}, "rowsFrame": {"layout": "auto"},
               "tooltip": {"mode": "single", "show": True, "yHistogram": True},
               "yAxis": {"axisPlacement": "left", "unit": unit}}
    defaults = {"custom": {"hideFrom": {"legend": False, "tooltip": False, "viz": False},
                           "scaleDistribution": {"type": "linear"}}, "unit": unit}
    return _panel("heatmap", title, description,
                  _targets([Query(f"sum by (le) ({buckets})", "{{le}}")], format="heatmap"), defaults, options, size)


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of a table; the queries of all columns keep the same labels."""
    name: str
    expr: str
    unit: str = "short"
    thresholds: dict = None
    # Draws a bar of this maximum in the cell.
    bar: float = None
    decimals: int = None


def table(title, description, keys, columns, *, size=(24, 9), sort=None, empty=None):
    """Rows are the label sets of the columns' queries. `keys` are the labels to show, in order: {label: heading}."""
    overrides = []
    for column in columns:
        properties = {"unit": column.unit}
        if column.decimals is not None:
            properties["decimals"] = column.decimals
        if column.thresholds is not None:
            properties |= {"thresholds": column.thresholds, "color": {"mode": "thresholds"},
                           "custom__cellOptions": {"type": "color-text"}}
        if column.bar is not None:
            properties |= {"min": 0, "max": column.bar,
                           "custom__cellOptions": {"type": "gauge", "mode": "basic", "valueDisplayMode": "text"}}
        overrides.append(_override(column.name, **properties))
    values = [f"Value #{chr(ord('A') + number)}" for number in range(len(columns))]
    if len(columns) == 1:
        values = ["Value"]
    order = [*keys, *values]
    organize = {"id": "organize", "options": {
        "excludeByName": {"Time": True}, "indexByName": {name: number for number, name in enumerate(order)},
        "renameByName": {**keys, **{value: column.name for value, column in zip(values, columns)}}}}
    options = {"cellHeight": "sm", "showHeader": True, "footer": {"show": False, "reducer": ["sum"], "fields": ""},
               "sortBy": [{"displayName": sort, "desc": True}] if sort else []}
    defaults = {"custom": {"align": "auto", "cellOptions": {"type": "auto"}, "filterable": True},
                "color": {"mode": "thresholds"}, "thresholds": NO_STEPS}
    targets = _targets([Query(column.expr) for column in columns], format="table", instant=True, range=False)
    return _panel("table", title, description, targets, defaults, options, size, overrides,
                  [{"id": "merge", "options": {}}, organize], empty=empty)


def matrix(title, description, expr, unit, *, row, column, size=(12, 9), decimals=1, empty=None):
    """A cell for each pair of the labels `row` and `column`, coloured by its value."""
    defaults = {"unit": unit, "decimals": decimals, "color": {"mode": "continuous-blues"}, "thresholds": NO_STEPS,
                "custom": {"align": "center", "cellOptions": {"type": "color-background", "mode": "basic"}}}
    options = {"cellHeight": "md", "showHeader": True, "footer": {"show": False, "reducer": ["sum"], "fields": ""}}
    corner = _override(f"{row}\\{column}", custom__cellOptions={"type": "auto"}, custom__align="left")
    to_matrix = {"id": "groupingToMatrix", "options": {"rowField": row, "columnField": column, "valueField": "Value",
                                                       "emptyValue": "empty"}}
    targets = _targets([Query(f"sum by ({row}, {column}) ({expr})")], format="table", instant=True, range=False)
    return _panel("table", title, description, targets, defaults, options, size, [corner], [to_matrix], empty=empty)


def row(title):
    return {"type": "row", "title": title, "collapsed": False, "panels": [],
            "gridPos": {"w": GRID_COLUMNS, "h": 1, "x": 0, "y": 0}}


def variable(name, label, metric):
    """Values of a label, from a metric that every process has; all of them unless the user chooses."""
    query = f"label_values({in_scope(metric)}, {name})"
    return {"type": "query", "name": name, "label": label, "datasource": DATASOURCE,
            "query": {"query": query, "refId": f"variable-{name}"}, "refresh": 2, "sort": 1, "multi": True,
            "includeAll": True, "allValue": ".*", "hide": 0, "skipUrlSync": False, "regex": "",
            "current": {"selected": True, "text": ["All"], "value": ["$__all"]}, "options": []}


CLUSTER_VARIABLES = (
    {"type": "datasource", "name": "datasource", "label": "Prometheus", "query": "prometheus", "refresh": 1,
     "multi": False, "includeAll": False, "hide": 0, "skipUrlSync": False, "regex": "", "current": {}, "options": []},
    variable("namespace", "Namespace", "baton_build_info"),
    variable("job", "Cluster (job)", 'baton_build_info{namespace=~"$namespace"}'),
)
WORKER_VARIABLES = (
    variable("role", "Role", 'baton_build_info{@, role!="router"}'),
    variable("instance", "Worker", 'baton_build_info{@, role=~"$role", role!="router"}'),
)


def annotation(name, expr, color, text):
    return {"name": name, "datasource": DATASOURCE, "enable": True, "hide": False, "iconColor": color,
            "expr": in_scope(expr), "titleFormat": name, "textFormat": text}


ANNOTATIONS = (
    annotation("Worker lost", 'sum by (job, role, reason) (increase(baton_worker_losses_total{@, reason!="drained"}'
                              "[$__rate_interval])) > 0", RED, "{{role}}, {{reason}}"),
    annotation("Process started", "changes(process_start_time_seconds{@}[$__rate_interval]) > 0", YELLOW,
               "{{instance}}"),
)


def dashboard(uid, title, description, panels, more_variables=()):
    """Panels flow from left to right; a row of the page is as high as its highest panel."""
    x = y = height = 0
    for number, panel in enumerate(panels, 1):
        place = panel["gridPos"]
        if x + place["w"] > GRID_COLUMNS:
            x, y, height = 0, y + height, 0
        place |= {"x": x, "y": y}
        x, height = x + place["w"], max(height, place["h"])
        panel["id"] = number
    return {
        "uid": uid, "title": f"Baton / {title}", "description": description, "tags": ["baton", "llm"], "editable": True,
        "graphTooltip": 1, "schemaVersion": SCHEMA_VERSION, "version": 1, "refresh": "30s", "timezone": "browser",
        "time": {"from": "now-1h", "to": "now"}, "timepicker": {}, "fiscalYearStartMonth": 0, "weekStart": "",
        "liveNow": False, "annotations": {"list": list(ANNOTATIONS)},
        "links": [{"type": "dashboards", "title": "Baton", "tags": ["baton"], "asDropdown": False, "includeVars": True,
                   "keepTime": True, "targetBlank": False, "icon": "dashboard", "tooltip": "", "url": ""}],
        "templating": {"list": [*CLUSTER_VARIABLES, *more_variables]}, "panels": list(panels)}
