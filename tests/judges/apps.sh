#!/usr/bin/env bash
# The official host library of MCP Apps (its AppBridge) in headless Chromium, with the official client on stdio: the page
# that the tools name must come up, show images, compare, rate, and contact nothing but its host.
#   apps.sh retake mcp --workspace DIR
# Screenshots go to SCREENSHOTS (default: target/screenshots).
set -euo pipefail
. "$(dirname "$0")/setup.sh"
here=$(cd "$(dirname "$0")" && pwd)
node=$(node_22)
modules=$(npm_judge "$apps" @modelcontextprotocol/ext-apps@2.0.4 esbuild@0.25.12 playwright-core@1)
chromium=$(find_chromium) || {
  may_install chromium && needs "command -v chromium" chromium
  chromium=$(find_chromium)
}
export MODULES=$modules CHROMIUM=$chromium SCREENSHOTS=${SCREENSHOTS:-$here/../../target/screenshots}
mkdir -p "$SCREENSHOTS"
# The libraries are found beside the script that uses them.
cp "$here/apps.mjs" "$here/apps-host.mjs" "$modules/.."
"$modules/.bin/esbuild" "$modules/../apps-host.mjs" --bundle --format=iife --outfile="$modules/../apps-host.js" --log-level=error
"$node" "$modules/../apps.mjs" "$modules/../apps-host.js" "$@"
