//! What differs between operating systems, as far as this crate is concerned. No other file here asks which system it is
//! compiled for.
//!
//! Each function has a form for Unix and one for Windows, side by side. `docs/platforms.md` lists the differences and what
//! has never been tried.

mod files;
mod socket;

pub(crate) use files::{
    LOCKS_ARE_ADVISORY, file_id, is_link_loop, is_no_such_device, read_some_at, restrict_copy, restrict_dir,
    restrict_file, symlink, sync_dir, write_all_at,
};
pub(crate) use socket::{
    HAS_TIMEOUTS, address, is_trusted, remove as remove_socket, restrict_listener, socket_name_of,
};
