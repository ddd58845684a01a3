#!/usr/bin/env bash
# gpu_check.sh pack [FOLDER] | run [FOLDER [FLAG OF cuda_bench...]]: the tests and the benchmark of the CUDA engine on a GPU. A
# machine with a GPU may lack every library that Baton is built with, so `pack` builds here and puts the programs with their
# libraries into FOLDER (build/gpu_check, under 64 MiB), and `run` runs them there, in under 8 minutes. It needs bash and
# NVIDIA's driver; where compute-sanitizer is, each kernel also runs under it, and where cuBLASLt is, it is measured beside the
# engine. The result is one object of JSON on standard output. FOLDER/*.log has what the programs say, FOLDER/*.golden what
# the GPU makes of the fragments of tests/ptx/golden; 1 when something failed.
set -euo pipefail
cd "$(dirname "$0")/.."
FOLDER="${2:-build/gpu_check}"
PROGRAMS=(cuda_fragments cuda_kernels_test cuda_runner_test cuda_bench)
# What runs when they are over is stopped, with code 124, and what comes then is not begun.
MOST_SECONDS="${BATON_GPU_CHECK_SECONDS:-450}"

pack() {
  scripts/build.sh release --target "${PROGRAMS[@]}" >&2
  rm -rf "$FOLDER"
  mkdir -p "$FOLDER/lib"
  for program in "${PROGRAMS[@]}"; do
    strip -o "$FOLDER/$program" "build/release/tests/$program"
    # All but the C library, which belongs to its own loader.
    ldd "build/release/tests/$program" | awk '$3 ~ /^\// {print $3}' | grep -vE '/lib(c|m|dl|rt|pthread)\.so' |
      xargs cp -L -t "$FOLDER/lib" --update
  done
  du -sh "$FOLDER" >&2
}

# begin NAME SECONDS COMMAND...: runs it for so long at most, standard output to FOLDER/NAME.out, and begins its member of the
# object: how it ended.
begin() {
  local name="$1" most="$2" begin=$SECONDS rc=0
  shift 2
  if [ "$most" -ge 1 ]; then
    timeout -k 5 "$most" "$@" >"$FOLDER/$name.out" 2>"$FOLDER/$name.log" || rc=$?
  else
    rc=124
    : >"$FOLDER/$name.out" 2>"$FOLDER/$name.log"
  fi
  [ "$rc" -eq 0 ] || failed=1
  printf '%s"%s":{"rc":%d,"seconds":%d' "$comma" "$name" "$rc" $((SECONDS - begin))
  comma=,
}

# check NAME SECONDS COMMAND...: a GoogleTest program.
check() {
  begin "$@"
  cat "$FOLDER/$1.out" >>"$FOLDER/$1.log"
  rm "$FOLDER/$1.out"
  printf ',"passed":%d,"skipped":%d}' "$(grep -c '^\[       OK' "$FOLDER/$1.log")" \
    "$(grep -c '^\[  SKIPPED \] [A-Z].* ms)' "$FOLDER/$1.log")"
}

# measure NAME SECONDS COMMAND...: a program whose standard output is an object of JSON, or nothing where it failed.
measure() {
  begin "$@"
  printf ',"result":%s}' "$(grep . "$FOLDER/$1.out" || echo null)"
}

left() { echo $((MOST_SECONDS - SECONDS)); }

sanitize() {
  local tools=(memcheck racecheck initcheck) count=3
  if ! command -v compute-sanitizer >/dev/null; then
    printf '%s"compute-sanitizer":"not installed"' "$comma"
    return
  fi
  for tool in "${tools[@]}"; do
    check "$tool" $(($(left) / count)) \
      compute-sanitizer --tool "$tool" --error-exitcode 9 "$FOLDER/cuda_kernels_test"
    count=$((count - 1))
  done
}

run() {
  # The toolkit's libraries are often in no path of the loader.
  export BATON_TEST_CUDA=gpu
  export LD_LIBRARY_PATH="$FOLDER/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}:${CUDA_HOME:-/usr/local/cuda}/lib64"
  failed=0 comma=
  printf '{'
  measure cuda_fragments "$(left)" "$FOLDER/cuda_fragments" "$FOLDER"
  for test in cuda_kernels_test cuda_runner_test; do
    check "$test" "$(left)" "$FOLDER/$test"
  done
  measure cuda_bench "$(left)" "$FOLDER/cuda_bench" "$@"
  measure cuda_bench_smollm2 "$(left)" "$FOLDER/cuda_bench" --shape smollm2-135m "$@"
  sanitize
  printf '}\n'
  exit "$failed"
}

case "${1:-}" in
  pack) pack ;;
  run) run "${@:3}" ;;
  *) sed -n '2,8s/^# //p' "$0" >&2; exit 2 ;;
esac
