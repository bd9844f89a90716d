//! Retake beside its peers.

fn main() {}
