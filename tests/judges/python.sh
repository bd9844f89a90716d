#!/usr/bin/env bash
# The official Python client, in both eras, against a server.
#   python.sh http://127.0.0.1:7373/mcp
#   python.sh retake mcp --workspace DIR
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/setup.sh"
python=$(python_judge "$python_mcp" mcp==2.3.0 jsonschema==4.26.0)
exec "$python" "$here/client.py" "$here/calls.json" "$@"
