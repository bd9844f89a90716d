# The common jobs. `just` lists them; each is a few lines that also work without just.

# List the jobs
default:
    @just --list --unsorted

# Show the gallery with sample work
demo:
    cargo run --release -- demo --open

# Format, lints and docs, as in CI
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --locked -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

# All tests; installs what they need on Debian
test:
    RETAKE_TEST_INSTALL=1 cargo test --workspace

# The tests that need only Rust
test-quick:
    cargo test --workspace --lib --test cli --test mcp --test web --test workspace

# Accept changed snapshots and generated references, then look at the diff
bless:
    INSTA_UPDATE=always RETAKE_BLESS=docs cargo test --workspace --test cli --test mcp --test workspace --test docs
    git diff --stat

# The benchmarks, ours and others' in one run
bench *QUESTIONS:
    cargo run --release -p retake-benches -- {{QUESTIONS}}

# The book, at target/book/index.html
book:
    mdbook build docs

# The screenshots and the animation of the README
pictures:
    packaging/pictures.sh

# Every crate from its packed files
package:
    cargo package --workspace --exclude retake-benches --exclude retake-testutils --locked

# The container image, with podman
image:
    podman build --format docker -f packaging/container/Containerfile -t retake .

# Everything a release consists of, in target/dist
release:
    packaging/release.sh --strict
