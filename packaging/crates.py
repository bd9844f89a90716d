"""Which crates are linked into the retake binary, from `cargo metadata` and `Cargo.lock`."""

import json
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def linked_crates(target: str) -> tuple[dict, list[dict], dict[str, set[str]]]:
    """Returns the root package, the crates it links for `target`, and who needs whom, by package URL.

    Crates that only run while building (proc macros and build scripts) are not linked, but what they generate is; they
    are followed like the others, since a bill of materials that leaves them out hides them from advisories.
    """
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    root = next(id for id, package in packages.items() if package["name"] == "retake" and not package["source"])
    checksums = {
        (package["name"], package["version"]): package.get("checksum")
        for package in tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    }
    found, waiting, edges = {root}, [root], {}
    while waiting:
        id = waiting.pop()
        needed = [
            dependency["pkg"]
            for dependency in nodes[id]["deps"]
            if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"])
        ]
        edges[purl(packages[id])] = {purl(packages[it]) for it in needed}
        waiting.extend(it for it in needed if it not in found)
        found.update(needed)
    for id in found:
        package = packages[id]
        package["checksum"] = checksums.get((package["name"], package["version"]))
    crates = sorted((packages[id] for id in found - {root}), key=lambda it: (it["name"], it["version"]))
    return packages[root], crates, edges


def purl(package: dict) -> str:
    return f"pkg:cargo/{package['name']}@{package['version']}"
