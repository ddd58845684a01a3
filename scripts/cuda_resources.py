#!/usr/bin/env python3
"""Prints what ptxas says of the CUDA kernels as a Markdown table, with what that allows on an H200 by calculation.

    scripts/cuda_resources.py [--check|--write] [--nvcc NVCC] [REPORT]
                              (default: build/release/engine/cuda/kernels/kernels.fatbin.ptxas)

--write puts the table into docs/gpu.md. --check exits 1 when the table there is another one, unless another version of
nvcc made it, and when that page says of a kernel not what its test compares.

Registers, spills and static shared memory are the compiler's, for sm_80 and sm_90. Threads and dynamic shared memory are
those of a launch for the shape of an 8B Llama (hidden 4,096, head_dim 128), from engine/cuda/kernels/shapes.h. Then, for
sm_90:

    blocks     = least of 32, 2,048 / threads, 65,536 / (registers rounded up to 8 * threads),
                 228 KiB / (shared memory + 1 KiB)
    occupancy  = blocks * threads / 2,048
    in flight  = blocks * bytes that a block has asked of memory while it waits (the source of each kernel says how many)
    bound      = least of 4.8 TB/s and 132 * in flight / 600 ns: Little's law, with the latency of a loaded memory

A bound below 4.8 TB/s says that no grid, however large, lets this kernel fill the memory; one of 4.8 says only that
nothing here forbids it. Exits 1 when a kernel spills registers.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
REPORT = ROOT / "build/release/engine/cuda/kernels/kernels.fatbin.ptxas"
FOLDER = ROOT / "engine/cuda/kernels"
PAGE = ROOT / "docs/gpu.md"
BEGIN = "<!-- kernels: scripts/cuda_resources.py --write makes what follows of the compiler's report -->"
END = "<!-- end of kernels -->"
# The section of the page with a row, or a part of one, for each kernel's test.
PROOFS = "## What each kernel is compared with"

SMS = 132
REGISTERS = 65536
SHARED = 228 * 1024
SHARED_OF_BLOCK = 1024
THREADS = 2048
BLOCKS = 32
BANDWIDTH = 4.8e12
LATENCY_S = 600e-9

DEPTH = 4096
HEAD_DIM = 128


def read_constants():
    """The whole numbers of params.h and shapes.h, by name; an expression of earlier ones is computed."""
    constants = {}
    for name in ("params.h", "shapes.h"):
        for line in (FOLDER / name).read_text().splitlines():
            found = re.match(r"inline constexpr int (k\w+) = ([^;]+);", line)
            if found:
                constants[found[1]] = eval(found[2].replace("/", "//"), {"__builtins__": {}}, dict(constants))
    return constants


def stage_bytes(c, bits, factors):
    """`factors`: elements that share a pair of them; 0 for bf16 and FP8, of which FP8 has one scale in a stage."""
    acts = c["kManyRows"] * c["kStageDepth"] * 2
    scales = c["kStageDepth"] // c["kGroup"] * 4 + c["kStageDepth"] // factors * 2 if factors else 4 if bits == 8 else 0
    return acts + c["kManyColumns"] * (c["kStageDepth"] * bits // 8 + scales)


def launches():
    """Kernel -> (threads, dynamic shared bytes, bytes in flight of a block)."""
    c = read_constants()
    threads = c["kThreads"]
    table = {
        # A load of 16 bytes to a thread at a time.
        "embed": (threads, 0, threads * 16),
        "add_norm": (threads, 0, threads * 16),
        "store_qkv": (32, 0, HEAD_DIM * 4),
        # Gate and up, 8 bytes each.
        "activate": (threads, 0, threads * 16),
        "zero_rows": (threads, 0, threads * 16),
        "digest": (threads, 0, threads * c["kDigestLoads"] * 16),
        # Eight loads of 4 bytes.
        "argmax": (1024, 0, 1024 * 32),
        "sample": (1024, 0, 1024 * 32),
        "attention_fold": (threads, 0, threads * 12),
    }
    halves = c["kTileRows"] * (HEAD_DIM + c["kQueryPadding"] + c["kProbabilityStride"])
    halves += c["kSplitTokens"] * (HEAD_DIM + c["kValuePadding"])
    shared = halves * 2 + 2 * c["kQuarters"] * c["kTileRows"] * 4
    # V of the split, and two steps of K: 8 tiles of tokens, 8 bytes to a lane.
    in_flight = c["kSplitTokens"] * HEAD_DIM * 2 + threads * 2 * 8 * 8
    for name in ("attention_decode", "attention_split"):
        table[name] = (threads, shared, in_flight)
    # A stage of K or V, while the one before it is used.
    stages = 2 * c["kQuarterTokens"] * (HEAD_DIM + c["kKeyPadding"]) * 2
    table["attention_prefill"] = (threads, stages + c["kPrefillTileRows"] * HEAD_DIM * 4 + threads * 16,
                                  c["kQuarterTokens"] * HEAD_DIM * 2)
    splits = -(-DEPTH // c["kDepthSplit"])
    few_threads = min(32 * splits, c["kMostFewThreads"])
    for name, bits, factors in (("bf16", 16, 0), ("int8", 8, 16), ("int4", 4, 32), ("fp8", 8, 0)):
        stage = stage_bytes(c, bits, factors)
        table["product_" + name] = (threads, c["kStages"] * stage, (c["kStages"] - 1) * stage)
        # Half a split: 4 blocks of two rows, 8 elements and their pair of f16 to a lane.
        lane = 4 * 2 * (bits + (4 if factors else 0))
        table["product_few_" + name] = (few_threads, splits * c["kFewRows"] * 16 * 4, few_threads * lane)
    return table


def read_report(text):
    """[(kernel, architecture, registers, bytes of spill stores, bytes of spill loads, static shared bytes)]"""
    pattern = re.compile(
        r"Compiling entry function '(\w+)' for '(sm_\d+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads"
        r".*?Used (\d+) registers([^\n]*)", re.DOTALL)
    rows = []
    for kernel, arch, stores, loads, registers, rest in pattern.findall(text):
        shared = re.search(r"(\d+) bytes smem", rest)
        rows.append((kernel, arch, int(registers), int(stores), int(loads), int(shared[1]) if shared else 0))
    return sorted(rows)


def bound_of(registers, shared, threads, in_flight):
    """(blocks, bytes in flight of an SM, bytes a second)"""
    blocks = min(BLOCKS, THREADS // threads, REGISTERS // (-(-registers // 8) * 8 * threads),
                 SHARED // (shared + SHARED_OF_BLOCK))
    return blocks, blocks * in_flight, min(BANDWIDTH, SMS * blocks * in_flight / LATENCY_S)


def both(values):
    """One text for what is of sm_80 and of sm_90."""
    texts = [f"{value:,}" for value in values]
    return texts[0] if len(set(texts)) == 1 else " / ".join(texts)


def table_of(rows, table):
    """Lines of Markdown."""
    lines = ["| kernel | registers | spills (bytes) | shared (static + dynamic) | threads | blocks / SM | occupancy | "
             "in flight / SM | bound |", "|---|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for kernel in sorted(table):
        # sm_80, then sm_90.
        registers, stores, loads, static = zip(*(row[2:] for row in rows if row[0] == kernel))
        threads, dynamic, in_flight = table[kernel]
        blocks, flying, bandwidth = bound_of(registers[-1], static[-1] + dynamic, threads, in_flight)
        lines.append(f"| `{kernel}` | {both(registers)} | {both(map(sum, zip(stores, loads)))} | {both(static)} + {dynamic:,} | "
                     f"{threads:,} | {blocks} | {blocks * threads / THREADS:.0%} | {flying / 1024:.0f} KiB | "
                     f"{bandwidth / 1e12:.1f} TB/s |")
    return lines


def version_of(nvcc):
    said = subprocess.run([nvcc, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.search(r"V[\d.]+", said)[0]


def parts_of(page):
    """What stands before the table in the page, the table with its first line, and what comes after."""
    before, begin, rest = page.partition(BEGIN + "\n")
    inside, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{PAGE.name} has lost the lines between which the table of the kernels stands")
    return before + begin, inside, end + after


def check_page(page, wanted, kernels):
    inside = parts_of(page)[1]
    made_by = re.search(r"nvcc (V[\d.]+)", inside)
    if made_by is None or made_by[0] in wanted:
        if inside != wanted:
            sys.exit(f"the table in {PAGE.name} is not the compiler's: run scripts/cuda_resources.py --write")
    else:
        print(f"the table in {PAGE.name} is of another compiler, {made_by[0]}: it was not compared")
    section = page.partition(PROOFS + "\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(\w+)`", " ".join(line.split("|")[1] for line in section.splitlines() if line.startswith("|"))))
    if named != set(kernels):
        sys.exit(f"{PAGE.name}, {PROOFS!r}: kernels that the page or the report lacks: "
                 f"{', '.join(sorted(named ^ set(kernels)))}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", nargs="?", type=pathlib.Path, default=REPORT)
    parser.add_argument("--nvcc", default=shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc", help="what made the report")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="compare docs/gpu.md with the report")
    mode.add_argument("--write", action="store_true", help="write the table into docs/gpu.md")
    args = parser.parse_args()
    rows = read_report(args.report.read_text())
    table = launches()
    unknown = {row[0] for row in rows} ^ set(table)
    if not rows or unknown:
        sys.exit(f"{args.report}: kernels that this script or the report lacks: {', '.join(sorted(unknown))}")
    lines = table_of(rows, table)
    spilling = sorted({f"{row[0]} ({row[1]})" for row in rows if row[3] + row[4] > 0})
    if spilling:
        print(*lines, sep="\n")
        sys.exit("these kernels spill registers: " + ", ".join(spilling))
    if not args.check and not args.write:
        return print(*lines, sep="\n")
    wanted = "\n".join(["", f"By nvcc {version_of(args.nvcc)}:", "", *lines, "", ""])
    page = PAGE.read_text()
    if args.check:
        return check_page(page, wanted, table)
    before, _, after = parts_of(page)
    PAGE.write_text(before + wanted + after)


if __name__ == "__main__":
    main()
