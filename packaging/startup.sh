#!/usr/bin/env bash
# Measures how long retake takes to start, beside other programs of Debian in one run, and prints a table.
#
# usage: packaging/startup.sh [RETAKE] [RUNS]     the binary, default target/release/retake; default 50 runs each
#
# Needs hyperfine and Python 3; peers that are not installed are left out (ripgrep, fd-find, bat, node).
set -euo pipefail
retake=$(realpath "${1:-target/release/retake}")
runs=${2:-50}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export RETAKE_WORKSPACE="$work/workspace" HOME="$work"

for number in $(seq 20); do
    "$retake" record "take $number" --seed "$number" > /dev/null
    echo "take $number" > "$work/take-$number.txt"
done
hello='{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"measure","version":"1"}}}'
tools='{"jsonrpc":"2.0","id":2,"method":"tools/list"}'
printf '%s\n%s\n' "$hello" "$tools" > "$work/mcp.in"

commands=()
measure() { # NAME PROGRAM COMMAND
    if command -v "$2" > /dev/null; then commands+=(--command-name "$1" "$3"); fi
}
measure 'retake --version' "$retake" "$retake --version"
measure 'rg --version' rg 'rg --version'
measure 'fdfind --version' fdfind 'fdfind --version'
measure 'batcat --version' batcat 'batcat --version'
measure 'hyperfine --version' hyperfine 'hyperfine --version'
measure 'retake list (20 sessions)' "$retake" "$retake list"
measure 'rg take (20 files)' rg "rg take $work --glob *.txt"
measure 'fdfind (20 files)' fdfind "fdfind txt $work"
measure 'batcat (1 file)' batcat "batcat --paging=never $work/take-1.txt"
measure 'retake mcp, introduced, 13 tools listed' "$retake" "sh -c 'exec $retake mcp < $work/mcp.in'"
measure 'node, an empty script' node 'node -e 0'
measure 'python3, an empty script' python3 'python3 -c pass'

# Without a shell in between, except for `mcp`, whose input is a file.
hyperfine --shell=none --warmup 3 --runs "$runs" --export-json "$work/times.json" "${commands[@]}" > /dev/null
python3 - "$work/times.json" << 'TABLE'
import json, sys

print("| command | median | least |\n|---|---:|---:|")
for result in json.load(open(sys.argv[1]))["results"]:
    print(f"| `{result['command']}` | {result['median'] * 1000:.1f} ms | {result['min'] * 1000:.1f} ms |")
TABLE
ls -l "$retake" | awk '{printf "size of the binary: %.1f MB\n", $5 / 1e6}'
