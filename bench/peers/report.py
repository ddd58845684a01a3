"""Shows the results of each part as a Markdown table with the ratio to the best peer."""

import statistics

from in_process import TITLES
from serving import CLOSED, OPEN, SLO_SHARE, SLO_TPOT_MS, SLO_TTFT_MS, holds


def is_ours(name):
    return name.startswith("Baton")


def ratio(ours, peers):
    return round(ours / max(peers), 2) if peers and max(peers) > 0 else None


def cell(value, digits=1):
    return "-" if value is None else f"{value:,.{digits}f}"


def row(cells):
    return "| " + " | ".join(cells) + " |"


def in_process_lines(parts):
    names = list(dict.fromkeys(name for part in parts.values() for name in part))
    lines = [row(["tokens/s, median (best)", *names, "Baton / best peer"]), "|---" + "|---:" * (len(names) + 1) + "|"]
    for part, runs in parts.items():
        medians = {n: statistics.median(r["tokens_per_s"] for r in rows) for n, rows in runs.items()}
        cells = []
        for name in names:
            best = max((r["tokens_per_s"] for r in runs.get(name, [])), default=None)
            cells.append("-" if best is None else f"{cell(medians[name])} ({cell(best)})")
        ours = max((v for n, v in medians.items() if is_ours(n)), default=0)
        cells.append(cell(ratio(ours, [v for n, v in medians.items() if not is_ours(n)]), 2))
        lines.append(row([TITLES[part], *cells]))
    return lines


LATENCIES = [("TTFT", "ttft"), ("TPOT", "tpot"), ("ITL", "itl")]


def latency_cells(result):
    return [" / ".join(cell(result[f"{k}_{name}_ms"], 0 if name == "ttft" else 1) for k in ("median", "p90", "p99"))
            for _, name in LATENCIES]


def closed_lines(runs):
    heads = ["system", "output tokens/s", *(f"{title} p50 / p90 / p99, ms" for title, _ in LATENCIES)]
    lines = [row(heads), "|---" + "|---:" * (len(heads) - 1) + "|"]
    medians = {}
    for name, results in runs.items():
        ranked = sorted(results, key=lambda r: r["output_throughput"])
        middle = ranked[len(ranked) // 2]
        medians[name] = middle["output_throughput"]
        lines.append(row([name, cell(middle["output_throughput"]), *latency_cells(middle)]))
    ours = max((v for n, v in medians.items() if is_ours(n)), default=0)
    best = ratio(ours, [v for n, v in medians.items() if not is_ours(n)])
    return lines + ["", f"Output throughput over the best peer's: {cell(best, 2)}."]


def open_lines(runs):
    heads = ["system", "highest rate held, 1/s", *(f"{title} p50 / p90 / p99 there, ms" for title, _ in LATENCIES)]
    lines = [row(heads), "|---" + "|---:" * (len(heads) - 1) + "|"]
    held_rates = {}
    for name, results in runs.items():
        ranked = sorted(results, key=lambda r: r["rate"])
        held = [r for r in ranked if holds(r)]
        held_rates[name] = held[-1]["rate"] if held else 0
        shown = held[-1] if held else ranked[0]
        note = "" if held else f" (at {shown['rate']:g})"
        lines.append(row([name, f"{held_rates[name]:g}{note}", *latency_cells(shown)]))
    ours = max((v for n, v in held_rates.items() if is_ours(n)), default=0)
    best = ratio(ours, [v for n, v in held_rates.items() if not is_ours(n)])
    return lines + ["", f"Rate held over the best peer's: {cell(best, 2)}."]


def fastest(limits, arithmetic):
    return max(i["gmac_per_s"] for i in limits["instructions"] if i["arithmetic"] == arithmetic)


def machine_lines(about, machine):
    """One row per measurement of the limits, and a last row with their medians."""
    limits = machine[0]["limits"]
    columns = {"memory read, GB/s": [m["limits"]["read_gb_per_s"] for m in machine]}
    for kind in dict.fromkeys(instruction["arithmetic"] for instruction in limits["instructions"]):
        columns[f"{kind}, GMAC/s"] = [fastest(m["limits"], kind) for m in machine]
    for i, figure in enumerate(machine[0]["attention"]):
        columns[f"attention, {figure['name']}, {figure['unit']}"] = [m["attention"][i]["value"] for m in machine]
    lines = [
        f"{limits['processor']}, {limits['cores']} cores, {' '.join(limits['instruction_sets'])}; {about['threads']} "
        f"threads each, seed {about['seed']}.",
        "Versions: " + ", ".join(f"{name} {version}" for name, version in about["versions"].items()) + ".",
        "", row(["limits", *columns]), "|---" + "|---:" * len(columns) + "|",
    ]
    lines += [row([m["when"], *(cell(values[i]) for values in columns.values())]) for i, m in enumerate(machine)]
    return lines + [row(["median", *(cell(statistics.median(values)) for values in columns.values())])]


def markdown(results):
    lines = machine_lines(results["about"], results["machine"])
    for model, parts in results["models"].items():
        lines += ["", f"### {model}, in process", ""]
        if parts.get("in_process"):
            lines += in_process_lines(parts["in_process"])
        if parts.get("serve_16"):
            lines += ["", f"### {model}, served: {CLOSED['concurrency']} at a time, {CLOSED['prompt_tokens']} tokens "
                      f"in, {CLOSED['output_tokens']} out", "", *closed_lines(parts["serve_16"])]
        if parts.get("open_loop"):
            lines += ["", f"### {model}, served: Poisson arrivals, {OPEN['prompt_tokens']} tokens in, "
                      f"{OPEN['output_tokens']} out, {100 * SLO_SHARE:.0f} % within TTFT {SLO_TTFT_MS} ms and TPOT "
                      f"{SLO_TPOT_MS} ms", "", *open_lines(parts["open_loop"])]
    return "\n".join(lines) + "\n"
