#!/usr/bin/env bash
# fuzz.sh [SECONDS]: every fuzzer under ASan and UBSan for SECONDS each (300), two at a time.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh
scripts/setup.sh
scripts/build.sh asan --target unit_tests
BATON_FUZZ_SECONDS=${1:-300} ctest --preset fuzz
