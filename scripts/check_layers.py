#!/usr/bin/env python3
"""Holds the tree to ARCHITECTURE.md: who may include whom, and what a core may use. Runs as a test.

check_layers.py [--root DIR] [--graph]: prints every breach with its line, or with --graph the counts of includes.

The tables are read from ARCHITECTURE.md, so that the page and the check cannot disagree:
- "Folders, and who may include whom" gives the folders and what each may include. The table must have no circle.
- The row `FOLDER/testing/`: only tests, benchmarks, the simulator and testing/ itself may include such a file.
- "Cores without I/O" gives the headers of the cores. A core is that header, the headers of its folder that it reaches
  by includes, and their sources. It uses neither gRPC nor threads nor sockets nor the machine's clock.
The generator, taken in the same way as a core, knows no protocol: it uses neither gRPC nor protobuf.
Headers of CUDA stand in engine/cuda and kvtransfer/transports alone, besides tests.
Inside a folder, files may not include each other in a circle; a header and its source count as one file.
"""
import argparse
import collections
import pathlib
import re
import sys

PROTO = "proto"
# In a core. The engine's loop and others that own a thread are not part of a core even where a core's folder has them.
CORE_BANS = re.compile(r"#include <(thread|chrono|mutex|condition_variable|grpcpp/|sys/socket)"
                       r"|MonotonicClock\(|SystemRandom\(")
# What adapters turn their protocols into must know none of them.
NO_PROTOCOL = ("router/error_details.h", "router/generation_listener.h", "router/generator.h")
PROTOCOL = re.compile(r'#include (<(grpcpp|google/protobuf)/|"(baton|etcd|google|inference|opentelemetry|vllm|common/rpc)/)')
# The only places that read the machine's clock or its randomness by themselves.
WALL_CLOCK = re.compile(r"std::chrono::(steady|system|high_resolution)_clock::now|std::random_device|clock_gettime")
WALL_CLOCK_FILES = ("common/clock.cc", "common/random.cc", "router/router_loop.cc", "router/rpc_requests.cc",
                    "bench/load/grpc_client.cc", "cli/")
# The program is built without CUDA; what needs it lies in a plug-in.
CUDA = re.compile(r"#include <(cuda|cublas|nccl)")
CUDA_FILES = ("engine/cuda/", "kvtransfer/transports/")
# Folders that may include anything, and that no other may include.
UNCHECKED = ("simulator", "tests")
INCLUDE = re.compile(r'^\s*#include "([^"]+)"')
# Sources that create the implementations of the interface in their header, which include that header in turn. Such a
# circle concerns linking, not types, so the includes of these sources do not count.
FACTORIES = ("kvtransfer/transport.cc", "modelfile/hf_config.cc", "modelfile/model_file.cc", "tokenizer/tokenizer.cc")
TEST_SUFFIXES = ("_test", "_fuzz", "_bench")
# Folders whose inner edges --graph counts.
GRAPH_INSIDE = ("router", "engine", "worker")


class Table:
    """What ARCHITECTURE.md allows."""

    def __init__(self, text):
        self.allowed = {}   # Folder -> folders that it may include.
        self.cores = []     # Headers.
        self.problems = []
        for names, cell in self._rows(text, "## Folders, and who may include whom", first=0, second=2):
            self._read_folders(re.findall(r"`([\w/]+?)/`", names), cell.strip())
        for cell, _ in self._rows(text, "## Cores without I/O", first=1, second=1):
            self.cores += re.findall(r"`([\w/]+\.h)`", cell)
        if not self.allowed or not self.cores:
            self.problems.append("ARCHITECTURE.md: the table of folders or of cores is missing")
        for folder in self.allowed:
            if folder in self._reached(folder):
                self.problems.append(f"ARCHITECTURE.md: by the table, {folder} may include itself through others")

    @staticmethod
    def _rows(text, heading, first, second):
        """Two cells of each row of the table below `heading`."""
        section = text.partition(heading + "\n")[2].partition("\n## ")[0]
        for line in section.splitlines():
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if line.startswith("|") and len(cells) > second:
                yield cells[first], cells[second]

    def _read_folders(self, folders, cell):
        if not folders or folders == ["FOLDER/testing"]:
            return
        if cell == "anything":  # Such folders are not checked, and nobody may include them.
            return
        may_include = set()
        for word in re.split(r",\s*", cell):
            if word == "all of the above":
                may_include |= set(self.allowed) | {PROTO}
            elif word == "the same":
                may_include |= self._last_allowed
            elif word != "nothing of ours":
                may_include.add(word)
                if word not in self.allowed:
                    self.problems.append(f"ARCHITECTURE.md: {folders[0]} may include {word}, which has no row above it")
        self._last_allowed = may_include
        for folder in folders:
            self.allowed[folder] = may_include

    def _reached(self, start):
        reached, todo = set(), [start]
        while todo:
            for folder in self.allowed.get(todo.pop(), ()):
                if folder not in reached:
                    reached.add(folder)
                    todo.append(folder)
        return reached


class Source:
    def __init__(self, root, path):
        self.path = str(path)
        self.folder = path.parts[0]
        self.stem = str(path.with_suffix("")).removesuffix("_impl")  # x_impl.h holds the private half of x.h.
        self.lines = (root / path).read_text().splitlines()
        self.is_test = path.stem.endswith(TEST_SUFFIXES)
        self.is_testing = "testing" in path.parts
        # (line number, included path) of what is written with quotes.
        self.includes = [(number, match.group(1)) for number, line in enumerate(self.lines, 1)
                         if (match := INCLUDE.match(line)) and "/" in match.group(1)]


def folder_of(include):
    first = include.split("/")[0]
    return PROTO if first in ("baton", "etcd", "google", "inference", "opentelemetry", "vllm") else first


class Tree:
    def __init__(self, root):
        self.table = Table((root / "ARCHITECTURE.md").read_text())
        self.folders = set(self.table.allowed) | {PROTO, *UNCHECKED}
        self.sources = [Source(root, path.relative_to(root))
                        for folder in sorted(self.folders) for path in sorted((root / folder).rglob("*"))
                        if path.suffix in (".h", ".cc", ".cu")]
        self.by_path = {source.path: source for source in self.sources}

    def unit_edges(self, folder):
        """Unit -> units of the same folder that it includes, without tests. A unit is a header with its source."""
        units = {source.stem for source in self.sources
                 if source.folder == folder and not source.is_test and not source.is_testing}
        edges = {unit: set() for unit in sorted(units)}
        for source in self.sources:
            if source.stem in edges and source.path not in FACTORIES:
                targets = {include.removesuffix(".h").removesuffix("_impl") for _, include in source.includes}
                edges[source.stem] |= (targets & units) - {source.stem}
        return edges

    def files_of(self, headers_of_parts):
        """Paths of the files that make up these parts of the tree, such as the cores, each named by its header."""
        files = set()
        for part in headers_of_parts:
            folder, todo, headers = part.split("/")[0], [part], set()
            while todo:
                header = todo.pop()
                source = self.by_path.get(header)
                if header in headers or source is None or source.is_testing:
                    continue
                headers.add(header)
                todo += [include for _, include in source.includes if folder_of(include) == folder]
            stems = {header.removesuffix(".h") for header in headers}
            files |= headers
            files |= {source.path for source in self.sources
                      if source.path.endswith(".cc") and not source.is_test and self._implements(source, stems)}
        return files

    def _implements(self, source, stems):
        """Whether this .cc belongs to one of these headers: x.cc and, without a header of its own, x_more.cc to x.h."""
        if source.stem + ".h" in self.by_path:
            return source.stem in stems
        return any(source.stem.startswith(stem + "_") for stem in stems)


def circles(edges):
    """Strongly connected components of more than one node, each as a sorted list (Tarjan's algorithm)."""
    order, low, stack, found = {}, {}, [], []

    def visit(node):
        order[node] = low[node] = len(order)
        stack.append(node)
        for target in sorted(edges[node]):
            if target not in order:
                visit(target)
            if target in stack:
                low[node] = min(low[node], low[target])
        if low[node] == order[node]:
            component = []
            while not component or component[-1] != node:
                component.append(stack.pop())
            if len(component) > 1:
                found.append(sorted(component))

    for node in sorted(edges):
        if node not in order:
            visit(node)
    return found


def include_breaches(tree, source):
    allowed = tree.table.allowed
    for number, include in source.includes:
        target = folder_of(include)
        where = f"{source.path}:{number}:"
        if source.folder in allowed and target in tree.folders and target != source.folder:
            if target not in allowed[source.folder]:
                yield f"{where} {source.folder} may not include {include}"
        if "testing" in include.split("/")[:-1]:
            may = source.is_test or source.is_testing or source.folder in ("bench", "simulator", "tests")
            if not may:
                yield f"{where} only tests, benchmarks and the simulator may include {include}"


def line_breaches(source, is_core, is_neutral):
    for number, line in enumerate(source.lines, 1):
        where = f"{source.path}:{number}:"
        if is_core and CORE_BANS.search(line):
            yield f"{where} a core without I/O may not use: {line.strip()}"
        if is_neutral and PROTOCOL.search(line):
            yield f"{where} the generator knows no protocol and may not use: {line.strip()}"
        if CUDA.search(line) and not source.path.startswith(CUDA_FILES):
            yield f"{where} the program is built without CUDA and may not use: {line.strip()}"
        if not source.is_test and WALL_CLOCK.search(line) and not source.path.startswith(WALL_CLOCK_FILES):
            yield f"{where} inject common/clock.h instead of: {line.strip()}"


def breaches(tree):
    yield from tree.table.problems
    yield from (f"ARCHITECTURE.md: {core} is named as a core but is not there"
                for core in tree.table.cores if core not in tree.by_path)
    cores = tree.files_of(tree.table.cores)
    neutral = tree.files_of(NO_PROTOCOL)
    for source in tree.sources:
        yield from include_breaches(tree, source)
        if source.folder in tree.table.allowed:
            yield from line_breaches(source, source.path in cores, source.path in neutral)
    for folder in tree.table.allowed:
        for circle in circles(tree.unit_edges(folder)):
            yield f"{folder}: these include each other in a circle: {', '.join(circle)}"


def print_graph(tree):
    between = collections.Counter()
    for source in tree.sources:
        for _, include in source.includes:
            target = folder_of(include)
            if not source.is_test and not source.is_testing and target != source.folder and target in tree.folders:
                between[source.folder, target] += 1
    print(f"{sum(between.values())} includes between folders, without tests")
    for (folder, target), count in sorted(between.items()):
        print(f"  {folder:>15} -> {target:<12} {count:4}")
    for folder in GRAPH_INSIDE:
        edges = tree.unit_edges(folder)
        in_circles = circles(edges)
        count = sum(len(targets) for targets in edges.values())
        print(f"inside {folder}: {len(edges)} units, {count} includes, {len(in_circles)} circles"
              + "".join(f"\n  circle of {len(circle)}: {', '.join(circle)}" for circle in in_circles))
        fan_in = collections.Counter(target for targets in edges.values() for target in targets)
        most = ", ".join(f"{unit.split('/', 1)[1]} {count}" for unit, count in fan_in.most_common(6))
        print(f"  most included: {most}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--graph", action="store_true", help="print counts of includes instead of checking")
    options = parser.parse_args()
    tree = Tree(options.root)
    if options.graph:
        print_graph(tree)
        return 0
    found = list(breaches(tree))
    print("\n".join(found) or "every include and every core keeps to ARCHITECTURE.md")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
