#!/usr/bin/env python3
"""Runs retake commands and draws them as an animated SVG of a terminal, one scene after the other.

usage: terminal.py OUTPUT.svg RETAKE WORKSPACE 'COMMAND' ['COMMAND' ...]

A command is what follows `retake`, such as 'show latest'. What is drawn is what the program printed.
"""

import fcntl
import html
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios

COLUMNS, ROWS, FONT = 108, 30, 14
ADVANCE, LEADING, MARGIN, BAR = 8.43, 20, 18, 34
SECONDS = 6.0
# The gallery's own dark palette.
BACKGROUND, BAR_COLOUR, TEXT, DIM = "#191817", "#242220", "#e8e4de", "#9a938a"
COLOURS = {31: "#e0776b", 32: "#8fbf7f", 33: "#dcb263", 34: "#82a9d6", 35: "#c49ad0", 36: "#7fbfb5", 37: TEXT}


def main() -> None:
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    output, retake, workspace, *commands = sys.argv[1:]
    scenes = [(command, run(retake, workspace, command)) for command in commands]
    width, height = COLUMNS * ADVANCE + 2 * MARGIN, ROWS * LEADING + BAR + 2 * MARGIN
    total = SECONDS * len(scenes)
    named = "retake " + ", ".join(command.split()[0] for command in commands)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{html.escape(named)} in a terminal">',
        "<style>",
        f"text{{font:{FONT}px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:{TEXT};white-space:pre}}",
        ".b{font-weight:700}.d{fill:" + DIM + "}",
        f".scene{{opacity:0;animation:show {total}s infinite}}",
        f"@keyframes show{{0%,{100 / len(scenes) - 1:.2f}%{{opacity:1}}{100 / len(scenes):.2f}%,100%{{opacity:0}}}}",
        # People who asked for less motion see the first scene.
        "@media (prefers-reduced-motion:reduce){.scene{animation:none}.scene:first-of-type{opacity:1}}",
        "</style>",
        f'<rect width="100%" height="100%" rx="10" fill="{BACKGROUND}"/>',
        f'<path d="M0 10a10 10 0 0 1 10-10h{width - 20:.0f}a10 10 0 0 1 10 10v{BAR - 10}h-{width:.0f}z" fill="{BAR_COLOUR}"/>',
        *(f'<circle cx="{22 + 20 * n}" cy="{BAR / 2}" r="6" fill="#4a4541"/>' for n in range(3)),
    ]
    for number, (command, lines) in enumerate(scenes):
        parts.append(f'<g class="scene" style="animation-delay:{SECONDS * number}s">')
        parts.append(line_of(0, f"\x1b[32m$\x1b[0m \x1b[1mretake {command}\x1b[0m"))
        rows = [row for line in lines for row in wrapped(line)]
        parts += [line_of(number + 1, row) for number, row in enumerate(rows[: ROWS - 1])]
        parts.append("</g>")
    parts.append("</svg>\n")
    with open(output, "w", encoding="utf-8") as file:
        file.write("\n".join(parts))


def run(retake: str, workspace: str, command: str) -> list[str]:
    """Runs a command in a terminal of COLUMNS columns, so that tables are as wide as they would be there.

    Images, which are drawn as half-blocks here, are left out.
    """
    words = [retake, "--workspace", workspace, "--color", "always", *shlex.split(command)]
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    child = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL, env={"TERM": "xterm", "TZ": "UTC"})
    os.close(theirs)
    printed = b""
    while True:
        try:
            chunk = os.read(ours, 65536)
        except OSError:  # The end of a terminal is an error on Linux.
            break
        if not chunk:
            break
        printed += chunk
    os.close(ours)
    if child.wait() != 0:
        sys.exit(f"retake {command} failed:\n{printed.decode()}")
    lines = printed.decode().replace("\r\n", "\n").split("\n")
    return "\n".join(line for line in lines if "▄" not in line).rstrip("\n").split("\n")


def wrapped(line: str) -> list[str]:
    """Breaks a line where a terminal would, at the last column; colours go on in the next row."""
    rows, column, styles = [""], 0, ""
    for piece in re.split(r"(\x1b\[[0-9;]*m)", line):
        if piece.startswith("\x1b"):
            styles = "" if piece in ("\x1b[0m", "\x1b[m") else styles + piece
            rows[-1] += piece
            continue
        for character in piece:
            if column == COLUMNS:
                rows.append(styles)
                column = 0
            rows[-1] += character
            column += 1
    return rows


def line_of(row: int, line: str) -> str:
    """Draws one line: a span for every change of colour, placed by column so that no font shifts it."""
    spans, column = [], 0
    bold = dim = False
    colour = None
    for piece in re.split(r"(\x1b\[[0-9;]*m)", line):
        if piece.startswith("\x1b"):
            for code in map(int, filter(None, piece[2:-1].split(";") or ["0"])):
                bold, dim, colour = {0: (False, False, None), 1: (True, dim, colour), 2: (bold, True, colour)}.get(
                    code, (bold, dim, COLOURS.get(code - 60 if code >= 90 else code, colour))
                )
            if piece == "\x1b[m":
                bold = dim = False
                colour = None
        elif piece:
            text = piece[: COLUMNS - column]
            classes = " ".join(filter(None, ["b" if bold else "", "d" if dim and not colour else ""]))
            attributes = (f' class="{classes}"' if classes else "") + (f' fill="{colour}"' if colour else "")
            style = f' style="fill:{colour}"' if colour else ""
            attributes = attributes.replace(f' fill="{colour}"', style) if colour else attributes
            spans.append(f'<tspan x="{MARGIN + column * ADVANCE:.1f}"{attributes}>{html.escape(text)}</tspan>')
            column += len(text)
    return f'<text y="{BAR + MARGIN + FONT + row * LEADING}">{"".join(spans)}</text>'


if __name__ == "__main__":
    main()
