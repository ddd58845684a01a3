#!/usr/bin/env bash
# gpu_check.sh pack|run [FOLDER]: the tests of the CUDA engine on a GPU. A machine with a GPU may lack every library that
# Baton is built with, so `pack` builds here and puts the tests with their libraries into FOLDER (build/gpu_check, under
# 64 MiB), and `run` runs them there. It needs bash and NVIDIA's driver; where compute-sanitizer is, each kernel also runs
# under it. The result is one object of JSON on standard output, what the tests say goes to FOLDER/*.log; 1 when something failed.
set -euo pipefail
cd "$(dirname "$0")/.."
FOLDER="${2:-build/gpu_check}"
TESTS=(cuda_kernels_test cuda_runner_test)

pack() {
  scripts/build.sh release --target "${TESTS[@]}" >&2
  rm -rf "$FOLDER"
  mkdir -p "$FOLDER/lib"
  for test in "${TESTS[@]}"; do
    strip -o "$FOLDER/$test" "build/release/tests/$test"
    # All but the C library, which belongs to its own loader.
    ldd "build/release/tests/$test" | awk '$3 ~ /^\// {print $3}' | grep -vE '/lib(c|m|dl|rt|pthread)\.so' |
      xargs cp -L -t "$FOLDER/lib" --update
  done
  du -sh "$FOLDER" >&2
}

# check NAME COMMAND...: runs it, and says how it went as a member of the object.
check() {
  local name="$1" begin=$SECONDS rc=0
  shift
  "$@" >"$FOLDER/$name.log" 2>&1 || rc=$?
  [ "$rc" -eq 0 ] || failed=1
  printf '%s"%s":{"rc":%d,"seconds":%d,"passed":%d,"skipped":%d}' "$comma" "$name" "$rc" $((SECONDS - begin)) \
    "$(grep -c '^\[       OK' "$FOLDER/$name.log")" "$(grep -c '^\[  SKIPPED \] [A-Z].* ms)' "$FOLDER/$name.log")"
  comma=,
}

run() {
  export BATON_TEST_CUDA=gpu LD_LIBRARY_PATH="$FOLDER/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  failed=0 comma=
  printf '{'
  for test in "${TESTS[@]}"; do
    check "$test" "$FOLDER/$test"
  done
  for tool in memcheck racecheck initcheck; do
    command -v compute-sanitizer >/dev/null || break
    check "$tool" compute-sanitizer --tool "$tool" --error-exitcode 9 "$FOLDER/cuda_kernels_test"
  done
  printf '}\n'
  exit "$failed"
}

case "${1:-}" in
  pack | run) "$1" ;;
  *) sed -n '2,7s/^# //p' "$0" >&2; exit 2 ;;
esac
