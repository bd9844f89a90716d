#!/usr/bin/env bash
# The official conformance suite against a server over HTTP, which is all it knows.
#   conformance.sh http://127.0.0.1:7373/mcp 2026-07-28|2025-11-25|legacy
# What it cannot pass is named in conformance-REVISION.yaml, each with its reason. A scenario that fails and is not there,
# or is there and passes, fails.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/setup.sh"
node=$(node_22)
if [ "$2" = legacy ]; then
  modules=$(npm_judge "$conformance_legacy" @modelcontextprotocol/conformance@0.1.16)
  chosen=(--suite active)
else
  modules=$(npm_judge "$conformance" @modelcontextprotocol/conformance@0.2.0-alpha.12)
  chosen=(--requirements "$2")
fi
status=0
said=$("$node" "$modules/.bin/conformance" server --url "$1" "${chosen[@]}" --expected-failures "$here/conformance-$2.yaml" 2>&1) || status=$?
sed -n '/=== SUMMARY/,$p' <<<"$said"
[ $status = 0 ] && echo "PASSED: $2" || echo "FAILED: $2"
exit $status
