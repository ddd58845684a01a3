#!/usr/bin/env bash
# fetch_schema_suite.sh: fetches json-schema.org's test suite by pip, and prints the folder of its draft 2020-12. Python's
# jsonschema carries a copy in its source archive. Nothing of the archive is kept but the tests, nor installed.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh
REQUIREMENT=jsonschema==4.26.0
SHA256=0c26707e2efad8aa1bfc5b7ce170f3fccc2e4918ff85989ba9ffa9facb2be326

target="$BATON_DEPS_DIR/json_schema_suite"
if [ "$(cat "$target/.requirement" 2>/dev/null)" != "$REQUIREMENT" ]; then
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  say "fetching the suite of $REQUIREMENT"
  # Pip checks the sum before it runs what an archive has to say of itself.
  echo "$REQUIREMENT --hash=sha256:$SHA256" >"$scratch/wanted"
  python3 -m pip download -q --disable-pip-version-check --no-deps --no-binary jsonschema --require-hashes \
    -d "$scratch" -r "$scratch/wanted" >&2
  mkdir "$scratch/archive"
  tar -xf "$scratch"/*.tar.gz -C "$scratch/archive" --strip-components 1
  rm -rf "$target" && mkdir -p "$target"
  cp -R "$scratch/archive/json/tests/draft2020-12" "$target"
  echo "$REQUIREMENT" >"$target/.requirement"
fi
echo "$target/draft2020-12"
