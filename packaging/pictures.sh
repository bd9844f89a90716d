#!/usr/bin/env bash
# Makes the pictures of the README from the demo: screenshots of the gallery, and an animation of the command line.
#
# usage: packaging/pictures.sh [RETAKE]      the binary; default target/release/retake
#
# Needs Chromium, Node.js and playwright-core (the browser tests install them into target/), and Python 3.
set -euo pipefail
cd "$(dirname "$0")/.."
retake=${1:-target/release/retake}
out=docs/images
work=$(mktemp -d)
trap 'kill "$server" 2> /dev/null || true; rm -rf "$work"' EXIT
mkdir -p "$out"

"$retake" demo --keep "$work/demo" --addr 127.0.0.1:0 > "$work/log" 2>&1 &
server=$!
for _ in $(seq 300); do
    url=$(grep -o 'http://127.0.0.1:[0-9]*/' "$work/log" | head -1) && break || sleep 0.2
done
modules=$(ls -d target/tmp/browser/node_modules)
MODULES="$PWD/$modules" node packaging/pictures.mjs "$url" "$out"
first=$("$retake" --workspace "$work/demo" list --json | python3 -c 'import json, sys; print(next(it["id"] for it in json.load(sys.stdin)["sessions"] if it.get("title") == "Harbour at dusk"))')
python3 packaging/terminal.py "$out/terminal.svg" "$retake" "$work/demo" \
    "show $first" "compare '$first#1' '$first#5'" "resume $first" "list"
ls -l "$out"
