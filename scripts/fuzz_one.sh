#!/usr/bin/env bash
# fuzz_one.sh FUZZER MAX_LEN CORPUS: runs one libFuzzer binary for BATON_FUZZ_SECONDS (10) from a copy of its corpus.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ -d "$3" ] && cp -r "$3/." "$work"
"$1" -max_total_time="${BATON_FUZZ_SECONDS:-10}" -max_len="$2" -timeout=10 -rss_limit_mb=3000 -print_final_stats=1 \
  -artifact_prefix="${BATON_FUZZ_ARTIFACTS:-./}" "$work"
