#!/usr/bin/env python3
"""Writes the tables of the chart's README.md, of the comments in its values.yaml. --check only looks whether they are right.

It needs PyYAML, which the environment of the tests has (scripts/setup.sh).

A comment that begins with `# --` describes the key below it. A map without such a comment is not a row of its own: its
keys are.
"""

import argparse
import json
import pathlib
import sys

import yaml

CHART = pathlib.Path(__file__).resolve().parents[1] / "deploy/helm/baton"
BEGIN = "<!-- values: scripts/helm_readme.py makes what follows of values.yaml -->"
END = "<!-- end of values -->"


def description_above(lines, key_line):
    """The comment that ends above a line, or None when it does not begin with `# --`."""
    comment, at = [], key_line - 1
    while at >= 0 and lines[at].strip().startswith("#"):
        comment.insert(0, lines[at].strip().removeprefix("#").strip())
        if comment[0].startswith("-- "):
            return " ".join(comment).removeprefix("-- ")
        at -= 1
    return None


def rows_of(node, lines, path=()):
    """(key, default, description) of every value that is described."""
    for key, value in node.value:
        name = (*path, key.value)
        description = description_above(lines, key.start_mark.line)
        is_block = isinstance(value, yaml.MappingNode) and value.value and not value.flow_style
        if description is not None:
            default = yaml.safe_load(yaml.serialize(value))
            yield ".".join(name), default, description
        elif is_block:
            yield from rows_of(value, lines, name)
        else:
            raise SystemExit(f"values.yaml:{key.start_mark.line + 1}: {'.'.join(name)} has no comment that begins with # --")


def tables_of(text):
    """Markdown: a table for each key at the top that has further ones, and one for the others."""
    groups = {}
    for row in rows_of(yaml.compose(text), text.splitlines()):
        top, dot, _ = row[0].partition(".")
        groups.setdefault(top if dot else "", []).append(row)
    parts = []
    for top in sorted(groups):
        parts += [f"### {top or 'General'}", "", "| value | default | meaning |", "|---|---|---|"]
        for key, default, description in groups[top]:
            shown = json.dumps(default, ensure_ascii=False)
            parts.append(f"| `{key}` | `{shown}` | {description} |".replace("||", "\\|\\|"))
        parts.append("")
    return "\n".join(parts)


def with_tables(readme, text):
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit("README.md has lost the lines between which the tables stand")
    return f"{before}{BEGIN}\n\n{tables_of(text)}\n{END}{after}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="fail when the tables are not those of values.yaml")
    check = parser.parse_args().check
    path = CHART / "README.md"
    readme = path.read_text()
    wanted = with_tables(readme, (CHART / "values.yaml").read_text())
    if not check:
        path.write_text(wanted)
    elif readme != wanted:
        sys.exit("deploy/helm/baton/README.md does not fit values.yaml: run scripts/helm_readme.py")


if __name__ == "__main__":
    main()
