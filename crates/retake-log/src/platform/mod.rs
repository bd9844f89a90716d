//! Everything in this crate that depends on the operating system. No other module checks the target.
//!
//! Each function has a Unix and a Windows version, side by side. `docs/platforms.md` lists the differences and what has
//! never been tested.

mod files;
mod socket;

pub use files::symlink;
pub(crate) use files::{
    LOCKS_ARE_ADVISORY, file_id, file_id_at, is_link_loop, is_no_such_device, read_some_at, restrict_copy,
    restrict_dir, restrict_file, sync_dir, write_all_at,
};
pub(crate) use socket::{
    HAS_TIMEOUTS, address, is_trusted, read_available, remove as remove_socket, restrict_listener, socket_name_of,
};
