#!/usr/bin/env python3
"""Prints the bill of materials of the retake binary (CycloneDX 1.6, JSON): every crate that is linked into it.

usage: sbom.py [--target TRIPLE] > sbom.cdx.json
"""

import argparse
import json

from crates import linked_crates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="x86_64-unknown-linux-gnu")
    root, crates, edges = linked_crates(parser.parse_args().target)
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": component(root, "application")},
        "components": [component(crate, "library") for crate in crates],
        "dependencies": [{"ref": ref, "dependsOn": sorted(needs)} for ref, needs in sorted(edges.items())],
    }
    print(json.dumps(document, indent=1))


def component(crate: dict, kind: str) -> dict:
    purl = f"pkg:cargo/{crate['name']}@{crate['version']}"
    entry = {"type": kind, "bom-ref": purl, "name": crate["name"], "version": crate["version"], "purl": purl}
    if crate["license"]:
        entry["licenses"] = [{"expression": " ".join(crate["license"].replace("/", " OR ").split())}]
    elif crate["license_file"]:
        entry["licenses"] = [{"license": {"name": "in words of its own: see NOTICES.txt"}}]
    if crate["checksum"]:
        entry["hashes"] = [{"alg": "SHA-256", "content": crate["checksum"]}]
    return entry


if __name__ == "__main__":
    main()
