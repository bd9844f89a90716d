#!/usr/bin/env bash
# Runs the MCP judges against a built binary, on stdio and over HTTP: the official conformance suite in three revisions,
# the official Inspector, the official Python client, and the official host library of MCP Apps in headless Chromium. With
# RETAKE_TEST_INSTALL=1 they are installed from npm and PyPI into target/judges (or RETAKE_JUDGES) first.
# `cargo test --test judges` runs this.
#   tests/judges.sh [BINARY]          default: target/debug/retake
#   tests/judges.sh --check           succeeds if all judges are installed
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ "${1:-}" = --check ]; then
  . "$here/judges/setup.sh"
  all_installed
  exit
fi
binary=${1:-$(dirname "$here")/target/debug/retake}
[ -x "$binary" ] || { echo "FAILED: no binary to judge: $binary" >&2; exit 1; }
binary=$(cd "$(dirname "$binary")" && pwd)/$(basename "$binary")
scratch=$(mktemp -d)
served=
end() {
  [ -n "$served" ] && kill "$served" 2>/dev/null
  rm -rf "$scratch"
}
trap end EXIT

failed=()
run() { # NAME COMMAND...
  echo "== $1"
  "${@:2}" || failed+=("$1")
}

# serve WORKSPACE: serves it, and sets `url`.
serve() {
  mkfifo "$scratch/said"
  "$binary" serve --addr 127.0.0.1:0 --json --workspace "$scratch/$1" >"$scratch/said" &
  served=$!
  read -r line <"$scratch/said"
  url=$(sed -n 's/.*"url":"\([^"]*\)".*/\1/p' <<<"$line")mcp
}

run "Python client, stdio" "$here/judges/python.sh" "$binary" mcp --workspace "$scratch/python"
run "Inspector, stdio" "$here/judges/inspector.sh" "$binary" mcp --workspace "$scratch/inspector"
run "MCP Apps host" "$here/judges/apps.sh" "$binary" mcp --workspace "$scratch/apps"
serve http
run "Python client, HTTP" "$here/judges/python.sh" "$url"
run "Inspector, HTTP" "$here/judges/inspector.sh" "$url"
for revision in 2026-07-28 2025-11-25 legacy; do
  run "conformance, $revision" "$here/judges/conformance.sh" "$url" $revision
done
if [ ${#failed[@]} -gt 0 ]; then
  printf 'FAILED: %s\n' "${failed[@]}"
  exit 1
fi
echo "PASSED: all judges"
