#!/usr/bin/env python3
"""What `retake wrap` adds to a call, beside a bare pipe and another proxy, with any build of the binary.

usage: wrap.py RETAKE [CALLS [PROXY COMMAND...]]     the server's command is appended to the proxy's

The ways take turns, a hundred calls each, so that a busy machine is equally busy for all. `cargo run --release -p
retake-benches -- wrap` measures the same without Python at either end.
"""
import json, os, statistics, subprocess, sys, tempfile, time

SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    method = message["method"]
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "bench", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "list_things", "inputSchema": {"type": "object"}}]}
    else:
        result = {"content": [{"type": "text", "text": "one, two"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


class Way:
    def __init__(self, name, command, env):
        self.name, self.times, self.id = name, [], 0
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, bufsize=0)
        self.lines = os.fdopen(os.dup(self.process.stdout.fileno()), "rb")
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}})
        self.process.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        self.ask("tools/list", {})

    def ask(self, method, params):
        self.id += 1
        line = json.dumps({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params}).encode() + b"\n"
        begun = time.perf_counter()
        self.process.stdin.write(line)
        while True:
            answer = self.lines.readline()
            took = time.perf_counter() - begun
            assert answer, f"{self.name} ended"
            if json.loads(answer).get("id") == self.id:
                return took

    def calls(self, count):
        self.times += [self.ask("tools/call", {"name": "list_things", "arguments": {}}) for _ in range(count)]


def main():
    retake, calls, proxy = sys.argv[1], int((sys.argv[2:] or ["10000"])[0]), sys.argv[3:]
    with tempfile.TemporaryDirectory() as root:
        path = os.path.join(root, "server.py")
        open(path, "w").write(SERVER)
        server = [sys.executable, path]
        env = dict(os.environ, HOME=root)
        ways = [
            Way("direct", server, env),
            Way("bare pipe (cat)", ["sh", "-c", 'cat | "$0" "$@" | cat', *server], env),
            Way("retake wrap", [retake, "--workspace", os.path.join(root, "workspace"), "wrap", "--", *server], env),
        ]
        if proxy:
            ways.append(Way("other proxy", [*proxy, *server], env))
        for _ in range(calls // 100):
            for way in ways:
                way.calls(100)
        direct = statistics.median(ways[0].times)
        print("| way | median | 99 % | added at the median |\n|---|---|---|---|")
        for way in ways:
            times = sorted(way.times)
            median, late = statistics.median(times), times[len(times) * 99 // 100]
            print(f"| {way.name} | {median * 1e6:.0f} µs | {late * 1e6:.0f} µs | {(median - direct) * 1e6:.0f} µs |")
            way.process.stdin.close()
            way.process.wait()


main()
