#!/usr/bin/env bash
# test.sh [--full]: sets up, builds and runs every test: the release build with the real model and the end-to-end tests,
# the unit tests under asan+ubsan and tsan, the fuzzers for BATON_FUZZ_SECONDS (30) each. Ends with ctest's summary.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh
[ "${1:-}" = "--full" ] && export BATON_FULL_TESTS=1

scripts/setup.sh
scripts/fetch_model.sh smollm2-135m-instruct
scripts/fetch_model.sh gemma-3-270m

# run_tests PRESET CTEST_ARGS...
run_tests() {
  local preset=$1
  shift
  ctest --test-dir "build/$preset" --output-on-failure --no-tests=error "$@"
}

for preset in asan tsan; do
  say "unit tests under $preset"
  scripts/build.sh "$preset" --target unit_tests
  run_tests "$preset" -L unit -j 2
done
say "fuzzers, ${BATON_FUZZ_SECONDS:-30} s each"
run_tests asan -L fuzz -j 2
say "all tests, release"
scripts/build.sh release
run_tests release -j 2
