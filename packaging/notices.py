#!/usr/bin/env python3
"""Prints the licence texts of everything inside the retake binary: crates, and the fonts they carry.

usage: notices.py [--target TRIPLE] > NOTICES.txt

Texts that several crates share are printed once, after the list of these crates.
"""

import argparse
import sys
from pathlib import Path

from crates import linked_crates

NAMES = ("LICEN", "COPYING", "NOTICE", "UNLICENSE", "COPYRIGHT")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="x86_64-unknown-linux-gnu")
    _, crates, _ = linked_crates(parser.parse_args().target)
    texts: dict[str, list[str]] = {}
    silent = []
    for crate in crates:
        if not crate["source"]:
            continue
        name = f"{crate['name']} {crate['version']} ({crate['license'] or 'see below'})"
        files = licence_files(Path(crate["manifest_path"]).parent)
        if not files:
            silent.append(name)
        for file in files:
            text = file.read_text(errors="replace").strip()
            texts.setdefault(text, []).append(name)
    print("Retake contains the following works of others, under their own licences.\n")
    for text, names in sorted(texts.items(), key=lambda it: it[1]):
        print("=" * 100)
        print("\n".join(sorted(set(names))))
        print("-" * 100)
        print(text)
        print()
    if silent:
        print("=" * 100)
        print("Crates whose packages name their licence without its text:")
        print("\n".join(silent))
    print(f"{len(crates)} crates, {len(texts)} texts", file=sys.stderr)


def licence_files(directory: Path) -> list[Path]:
    """Finds licence texts at the top of a package and beside the fonts in it."""
    found = [file for file in directory.rglob("*") if file.is_file() and file.name.upper().startswith(NAMES)]
    return sorted(file for file in found if file.suffix not in (".rs", ".toml") and file.stat().st_size < 200_000)


if __name__ == "__main__":
    main()
