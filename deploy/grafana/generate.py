#!/usr/bin/env python3
"""Writes the dashboards, baton-*.json beside this file, from dashboards/*.py.

    deploy/grafana/generate.py           # writes them
    deploy/grafana/generate.py --check   # exits with 1 and says which file is not what would be written

The JSON files are committed, because they are what Grafana, the chart and the compose file load.
"""

import argparse
import json
import pathlib
import sys

sys.dont_write_bytecode = True
FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))

from dashboards import failures, overview, phases, slo, transfers, workers  # noqa: E402


def files():
    """{path: text} of all dashboards."""
    found = {}
    for module in (overview, phases, transfers, workers, slo, failures):
        dashboard = module.DASHBOARD
        found[FOLDER / f"{dashboard['uid']}.json"] = json.dumps(dashboard, indent=1, ensure_ascii=False) + "\n"
    return found


def differing(expected):
    """Paths whose files differ from the texts, and dashboards that no module describes any more."""
    wrong = [path for path, text in expected.items() if not path.is_file() or path.read_text() != text]
    return wrong + sorted(set(FOLDER.glob("*.json")) - set(expected))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 when a file is not up to date")
    check = parser.parse_args().check
    expected = files()
    wrong = differing(expected)
    for path in wrong:
        if check:
            print(f"{path} is not what deploy/grafana/generate.py writes: run it", file=sys.stderr)
        elif path in expected:
            path.write_text(expected[path])
        else:
            path.unlink()
    return 1 if check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
