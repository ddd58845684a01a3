#!/usr/bin/env bash
# test.sh [--full]: sets up, checks the sources, builds and runs every test: the unit tests under asan+ubsan, those with
# threads under tsan, the fuzzers for BATON_FUZZ_SECONDS (10) each, and the release build with the real model and the
# end-to-end tests. Ends with ctest's summary, what the simulator ran and which tests were skipped and why. --full adds the
# longer tests, those with clients of gigabytes of packages and the HTTP port under attack with sanitizers, and plants the
# bugs of tests/mutants at the end.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh
[ "${1:-}" = "--full" ] && export BATON_FULL_TESTS=1

# The simulator draws other runs for every commit. A tree without a repository has its fixed ones.
if commit=$(git rev-parse --short=8 HEAD 2>/dev/null); then
  export BATON_SIM_BASE_SEED=$((16#${commit:0:8}))
fi
say "the simulator runs from BATON_SIM_BASE_SEED=${BATON_SIM_BASE_SEED:-1}"

# What passing tests of the release build said, which ctest does not show.
report() {
  local log=build/release/Testing/Temporary/LastTest.log
  say "what the simulator ran"
  # Output of tests need not be text.
  grep -aoE '^[0-9]+ (seeds|runs) from BATON_SIM_BASE_SEED=.* million events a second' "$log" || say "nothing"
  say "which tests were skipped, and why"
  # pytest names the test and the reason in a line, GoogleTest the test in a line and the reason behind it.
  grep -ahE -A1 '^SKIPPED \[|: Skipped$' "$log" | sed -nE '/^SKIPPED \[/p; /: Skipped$/{s/: Skipped$//; N; s/\n/: /p}' |
    sed "s|$PWD/||" | sort -u || true
}

scripts/setup.sh ${BATON_FULL_TESTS:+--full}
if [ -n "${BATON_FULL_TESTS:-}" ]; then
  export BATON_LM_EVAL="$BATON_LM_EVAL_VENV/bin/python" BATON_AIPERF="$BATON_AIPERF_VENV/bin/python"
fi
scripts/fetch_model.sh smollm2-135m-instruct
scripts/fetch_model.sh gemma-3-270m
if [ -n "${BATON_FULL_TESTS:-}" ] && [ -z "${BATON_JSON_SCHEMA_SUITE:-}" ]; then
  if suite=$(scripts/fetch_schema_suite.sh); then
    export BATON_JSON_SCHEMA_SUITE=$suite
  else
    say "without the suite of json-schema.org: its test is skipped"
  fi
fi

say "formatting and clang-tidy"
scripts/lint.sh
for preset in asan tsan; do
  say "unit tests under $preset"
  scripts/build.sh "$preset" --target unit_tests
  ctest --preset "$preset"
done
say "fuzzers, ${BATON_FUZZ_SECONDS:-10} s each"
ctest --preset fuzz
if [ -n "${BATON_FULL_TESTS:-}" ]; then
  say "the HTTP port under attack, under asan"
  scripts/build.sh asan --target baton
  ctest --preset attacks
fi
say "all tests, release"
scripts/build.sh release
ctest --preset release
report
if [ -n "${BATON_FULL_TESTS:-}" ]; then
  say "mutants: does a test fail for each planted bug"
  scripts/mutants.py
fi
