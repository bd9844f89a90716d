//! Retake.

pub mod cli;
pub mod disk;
pub mod images;
pub mod mcp;
pub mod model;
pub mod sharing;
pub mod store;
pub mod tracker;
