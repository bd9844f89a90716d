#!/usr/bin/env bash
# The official Inspector, in both eras: it must list everything, and find nothing in the tools' schemas that some client
# would stumble over.
#   inspector.sh http://127.0.0.1:7373/mcp
#   inspector.sh retake mcp --workspace DIR
set -euo pipefail
. "$(dirname "$0")/setup.sh"
node=$(node_22)
modules=$(npm_judge "$inspector" @modelcontextprotocol/inspector@2.12.0)
launcher=$modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js
# It keeps notes in the home directory.
export HOME=$judges/inspector-home
mkdir -p "$HOME"
case $1 in
  http*) target=(--server-url "$1" --transport http) ;;
  *) target=("$@") ;;
esac
failed=0
for era in legacy modern; do
  for method in tools/list resources/list resources/templates/list prompts/list; do
    strict=()
    [ $method = tools/list ] && strict=(--strict)
    said=$("$node" "$launcher" --cli "${target[@]}" --protocol-era $era --method $method --format json "${strict[@]}" 2>"$judges/inspector.stderr") ||
      { echo "FAILED: $era $method"; cat "$judges/inspector.stderr"; failed=1; continue; }
    verdict=$("$node" -e '
      const { result, schemaFindings = [] } = JSON.parse(require("fs").readFileSync(0, "utf8"));
      const listed = Object.values(result).find(Array.isArray) ?? [];
      const findings = schemaFindings.flatMap((tool) => tool.findings.map((finding) => [tool, finding]));
      console.log(`${listed.length} listed, ${findings.length} findings`);
      for (const found of findings) console.log(JSON.stringify(found));
      process.exit(listed.length > 0 && findings.length === 0 ? 0 : 1);' <<<"$said") || failed=1
    echo "$era $method: $verdict"
  done
done
[ $failed = 0 ] && echo PASSED || echo FAILED
exit $failed
