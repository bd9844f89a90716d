#!/usr/bin/env bash
# Runs the MCP judges (the official Inspector and Python client, both eras) against a built binary.
#   tests/judges.sh [BINARY]          default: target/debug/retake
# The judges are looked for in $MCP_JUDGES, else in ../shared/judges beside the repository. Exit: 0 passed or skipped.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
binary=${1:-$root/target/debug/retake}
judges=${MCP_JUDGES:-$(dirname "$root")/shared/judges}
if [ ! -x "$judges/inspector.sh" ] || [ ! -x "$judges/python-mcp.sh" ]; then
  echo "SKIPPED: the MCP judges were not run, because there are none in $judges (set MCP_JUDGES to where they are)"
  exit 0
fi
if [ ! -x "$binary" ]; then
  echo "FAILED: no binary to judge: $binary" >&2
  exit 1
fi
binary=$(cd "$(dirname "$binary")" && pwd)/$(basename "$binary")
workspaces=$(mktemp -d)
trap 'rm -rf "$workspaces"' EXIT
echo "== Inspector"
"$judges/inspector.sh" "$binary" mcp --workspace "$workspaces/inspector"
echo "== Python client"
"$judges/python-mcp.sh" --calls "$here/mcp/judge-calls.json" "$binary" mcp --workspace "$workspaces/python"
echo "PASSED: both MCP judges"
