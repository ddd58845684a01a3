#!/usr/bin/env bash
# quickstart.sh [--prompt TEXT] [--max-tokens N]: from a fresh Debian 12 machine to an answer of a real model.
# Without --prompt the local cluster stays up until Ctrl-C.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

prompt=""
max_tokens=64
while [ $# -gt 0 ]; do
  case "$1" in
    --prompt) prompt=${2:?--prompt needs a text}; shift 2 ;;
    --max-tokens) max_tokens=${2:?--max-tokens needs a number}; shift 2 ;;
    *) say "usage: quickstart.sh [--prompt TEXT] [--max-tokens N]"; exit 2 ;;
  esac
done

scripts/setup.sh
scripts/fetch_model.sh smollm2-135m-instruct
say "building; a first build takes some minutes"
scripts/build.sh release --target baton >&2
baton=build/release/bin/baton

if [ -z "$prompt" ]; then
  say "starting 1 router, 1 prefill worker, 1 decode worker; Ctrl-C ends them"
  exec "$baton" serve
fi

scratch=$(mktemp -d)
: >"$scratch/ready"
"$baton" serve --grpc-port 0 --log-level warn >"$scratch/ready" &
server=$!
stop() {
  kill "$server" 2>/dev/null || true
  wait "$server" 2>/dev/null || true
  rm -rf "$scratch"
}
trap stop EXIT
until grep -q '^ready' "$scratch/ready"; do
  kill -0 "$server" 2>/dev/null || die "the cluster did not start"
  sleep 0.1
done
target=$(sed -n 's/^ready {"grpc": "\([^"]*\)".*/\1/p' "$scratch/ready")
say "1 router, 1 prefill worker and 1 decode worker serve on $target"
"$baton" generate --target "$target" --prompt "$prompt" --max-tokens "$max_tokens"
