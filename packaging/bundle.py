#!/usr/bin/env python3
"""Packs a retake binary: an archive, an npm package, a Python wheel and an MCP bundle.

usage: bundle.py BINARY OUTPUT_DIR [--target TRIPLE] [--extras DIR] [--fast]

Each file carries the binary itself; nothing is downloaded when it is installed. The same input gives the same bytes:
names are sorted, times come from SOURCE_DATE_EPOCH (else 1980-01-01), owners are root. DIR may hold manual pages (man/),
completions (completions/) and NOTICES.txt for the archive.
"""

import argparse
import base64
import gzip
import hashlib
import io
import json
import os
import tarfile
import time
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Zip files cannot hold earlier times.
EPOCH = max(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), 315_532_800)

LEVEL = 9

# Rust's name of a platform: npm's (os, cpu), the wheel's tag, the MCP bundle's platform.
PLATFORMS = {
    "x86_64-unknown-linux-gnu": ("linux", "x64", "manylinux_2_34_x86_64", "linux"),
    "aarch64-unknown-linux-gnu": ("linux", "arm64", "manylinux_2_34_aarch64", "linux"),
    "x86_64-apple-darwin": ("darwin", "x64", "macosx_11_0_x86_64", "darwin"),
    "aarch64-apple-darwin": ("darwin", "arm64", "macosx_11_0_arm64", "darwin"),
    "x86_64-pc-windows-msvc": ("win32", "x64", "win_amd64", "win32"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--target", default="x86_64-unknown-linux-gnu", choices=sorted(PLATFORMS))
    parser.add_argument("--extras", type=Path)
    parser.add_argument("--fast", action="store_true", help="compress less, for tests")
    args = parser.parse_args()
    global LEVEL
    LEVEL = 1 if args.fast else 9
    args.output.mkdir(parents=True, exist_ok=True)
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text())
    release = Release(manifest, args.binary.read_bytes(), args.target, args.extras)
    for make in (archive, npm_package, wheel, mcp_bundle):
        name, data = make(release)
        (args.output / name).write_bytes(data)
        print(args.output / name)


class Release:
    """One binary and what is known about it."""

    def __init__(self, manifest: dict, binary: bytes, target: str, extras: Path | None) -> None:
        package = manifest["package"]
        self.version = manifest["workspace"]["package"]["version"]
        self.licence = manifest["workspace"]["package"]["license"]
        self.homepage = manifest["workspace"]["package"].get("homepage")
        self.summary = package["description"]
        self.keywords = package["keywords"]
        self.binary = binary
        self.target = target
        self.npm_os, self.npm_cpu, self.wheel_tag, self.mcp_platform = PLATFORMS[target]
        self.file_name = "retake.exe" if self.npm_os == "win32" else "retake"
        self.extras = extras

    def licences(self) -> dict[str, bytes]:
        files = {name: (ROOT / name).read_bytes() for name in ("LICENSE-APACHE", "LICENSE-MIT")}
        if self.extras and (self.extras / "NOTICES.txt").exists():
            files["NOTICES.txt"] = (self.extras / "NOTICES.txt").read_bytes()
        return files


def archive(release: Release) -> tuple[str, bytes]:
    """For people and packagers: unpack it anywhere."""
    top = f"retake-{release.version}-{release.target}"
    files = {release.file_name: (release.binary, 0o755), "README.md": ((ROOT / "README.md").read_bytes(), 0o644)}
    files |= {name: (data, 0o644) for name, data in release.licences().items()}
    if release.extras:
        for part in ("man", "completions"):
            for file in sorted((release.extras / part).glob("*")):
                files[f"{part}/{file.name}"] = (file.read_bytes(), 0o644)
    return f"{top}.tar.gz", tar_gz({f"{top}/{name}": content for name, content in files.items()})


def npm_package(release: Release) -> tuple[str, bytes]:
    """For `npx retake mcp`: the launcher hands over to the binary beside it."""
    package = {
        "name": "retake",
        "version": release.version,
        "description": release.summary,
        "keywords": release.keywords,
        "license": f"({release.licence})",
        "bin": {"retake": "launch.js"},
        "files": ["launch.js", "bin/", "LICENSE-*", "NOTICES.txt"],
        "os": [release.npm_os],
        "cpu": [release.npm_cpu],
        "engines": {"node": ">=18"},
    }
    if release.homepage:
        package["homepage"] = release.homepage
    files = {
        "package.json": (json.dumps(package, indent=2).encode() + b"\n", 0o644),
        "launch.js": ((ROOT / "packaging/npm/launch.js").read_bytes(), 0o755),
        "README.md": ((ROOT / "packaging/npm/README.md").read_bytes(), 0o644),
        f"bin/{release.file_name}": (release.binary, 0o755),
    }
    files |= {name: (data, 0o644) for name, data in release.licences().items()}
    return f"retake-{release.version}.tgz", tar_gz({f"package/{name}": content for name, content in files.items()})


def wheel(release: Release) -> tuple[str, bytes]:
    """For `uvx retake mcp` and `pip install`: the binary is the wheel's script."""
    info = f"retake-{release.version}.dist-info"
    metadata = [
        "Metadata-Version: 2.4",
        "Name: retake",
        f"Version: {release.version}",
        f"Summary: {release.summary}",
        f"Keywords: {','.join(release.keywords)}",
        f"License-Expression: {release.licence}",
        *(f"License-File: {name}" for name in sorted(release.licences())),
        "Requires-Python: >=3.8",
        "Description-Content-Type: text/markdown",
    ]
    if release.homepage:
        metadata.append(f"Project-URL: Homepage, {release.homepage}")
    readme = (ROOT / "packaging/pypi/README.md").read_text()
    tags = f"Wheel-Version: 1.0\nGenerator: retake\nRoot-Is-Purelib: false\nTag: py3-none-{release.wheel_tag}\n"
    files = {
        f"retake-{release.version}.data/scripts/{release.file_name}": (release.binary, 0o755),
        f"{info}/METADATA": (("\n".join(metadata) + "\n\n" + readme).encode(), 0o644),
        f"{info}/WHEEL": (tags.encode(), 0o644),
    }
    files |= {f"{info}/licenses/{name}": (data, 0o644) for name, data in release.licences().items()}
    record = "".join(f"{name},sha256={digest(data)},{len(data)}\n" for name, (data, _) in sorted(files.items()))
    files[f"{info}/RECORD"] = ((record + f"{info}/RECORD,,\n").encode(), 0o644)
    return f"retake-{release.version}-py3-none-{release.wheel_tag}.whl", zip_file(files)


def mcp_bundle(release: Release) -> tuple[str, bytes]:
    """For clients that install an MCP server from one file."""
    manifest = json.loads((ROOT / "data/mcp/manifest.json").read_text())
    manifest["version"] = release.version
    manifest["compatibility"] = {"platforms": [release.mcp_platform]}
    files = {
        "manifest.json": (json.dumps(manifest, indent=2).encode() + b"\n", 0o644),
        f"server/{release.file_name}": (release.binary, 0o755),
    }
    files |= {name: (data, 0o644) for name, data in release.licences().items()}
    return f"retake-{release.version}-{release.target}.mcpb", zip_file(files)


def digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def tar_gz(files: dict[str, tuple[bytes, int]]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, (data, mode) in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(data), mode, EPOCH
            entry.uname = entry.gname = "root"
            tar.addfile(entry, io.BytesIO(data))
    return gzip.compress(packed.getvalue(), LEVEL, mtime=EPOCH)


def zip_file(files: dict[str, tuple[bytes, int]]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as archive:
        for name, (data, mode) in sorted(files.items()):
            entry = zipfile.ZipInfo(name, time.gmtime(EPOCH)[:6])
            # Unix, so that the executable bit is kept wherever this script runs.
            entry.create_system, entry.external_attr = 3, (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return packed.getvalue()


if __name__ == "__main__":
    main()
