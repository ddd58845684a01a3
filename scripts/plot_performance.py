#!/usr/bin/env python3
"""Draws docs/performance.svg from the first table of docs/performance.md: one panel of bars for each kind of work.

plot_performance.py [--check]: with --check it writes nothing and fails when the picture is not that of the table.
"""
import pathlib
import re
import sys
from xml.sax.saxutils import escape

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"
WIDTH, MARGIN, LABEL_WIDTH, VALUE_WIDTH = 760, 20, 140, 50
BAR, GAP, PANEL_HEAD, PANEL_GAP = 15, 5, 26, 22
OURS, PEER, TEXT, MUTED = "#1f6feb", "#b6bfca", "#1f2328", "#59636e"


def read_table(page):
    """(names of the systems, [(kind of work, [tokens/s, ...]), ...]) of the first table; its last column is a ratio."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in re.search(r"(^\|.*\n)+", page, re.M).group().splitlines()]
    systems = rows[0][1:-1]
    work = [(row[0], [float(cell.split()[0].replace(",", "")) for cell in row[1:-1]]) for row in rows[2:]]
    return systems, work


def text(x, y, words, size=12, fill=TEXT, anchor="start", weight="normal"):
    return (f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{escape(words)}</text>')


def panel(x, y, width, title, systems, values):
    longest = width - LABEL_WIDTH - VALUE_WIDTH
    parts = [text(x, y + 14, title, size=13, weight="bold")]
    for index, (system, value) in enumerate(zip(systems, values)):
        top = y + PANEL_HEAD + index * (BAR + GAP)
        ours = system.startswith("Baton")
        length = longest * value / max(values)
        parts += [text(x + LABEL_WIDTH - 8, top + 12, system, anchor="end", weight="bold" if ours else "normal"),
                  f'<rect x="{x + LABEL_WIDTH:g}" y="{top}" width="{length:.1f}" height="{BAR}" rx="2" '
                  f'fill="{OURS if ours else PEER}"/>',
                  text(x + LABEL_WIDTH + length + 5, top + 12, f"{value:,.0f}", size=11, fill=MUTED)]
    return parts


def draw(systems, work):
    panel_height = PANEL_HEAD + len(systems) * (BAR + GAP) + PANEL_GAP
    panel_width = (WIDTH - 3 * MARGIN) / 2
    height = 64 + (len(work) + 1) // 2 * panel_height
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
             f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
             f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
             text(MARGIN, 28, "Tokens per second, SmolLM2-135M-Instruct on two Zen 4 cores", size=16, weight="bold"),
             text(MARGIN, 47, "tokens/s, median; longer is faster; each panel has its own scale", fill=MUTED)]
    for index, (title, values) in enumerate(work):
        x = MARGIN + index % 2 * (panel_width + MARGIN)
        parts += panel(x, 64 + index // 2 * panel_height, panel_width, title, systems, values)
    return "\n".join([*parts, "</svg>"]) + "\n"


def main():
    picture = draw(*read_table((DOCS / "performance.md").read_text()))
    if "--check" not in sys.argv[1:]:
        (DOCS / "performance.svg").write_text(picture)
    elif (DOCS / "performance.svg").read_text() != picture:
        print("docs/performance.svg is not that of the table in docs/performance.md: run scripts/plot_performance.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
