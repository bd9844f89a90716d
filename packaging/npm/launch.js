#!/usr/bin/env node
// Hands over to the binary in this package: same arguments, same standard streams, same exit status.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");
const { join } = require("node:path");

const binary = join(__dirname, "bin", process.platform === "win32" ? "retake.exe" : "retake");
const child = spawn(binary, process.argv.slice(2), { stdio: "inherit" });

// A terminal signals the whole process group, but a client that started this process signals only this one.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("error", (error) => {
  console.error(`error: cannot start ${binary}\ncaused by: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(code ?? 128 + (constants.signals[signal] ?? 0)));
