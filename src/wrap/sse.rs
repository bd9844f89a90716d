//! Parses server-sent events as far as necessary to find the messages in them. Their bytes are never changed.

use super::tap::MAX_OBSERVED_BYTES;

/// Splits a stream into events.
#[derive(Debug, Default)]
pub(crate) struct Events {
    pending: Vec<u8>,
    is_too_long: bool,
}

impl Events {
    /// Adds bytes, and returns the events they complete, each with the blank line that ends it.
    pub(crate) fn split(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.pending.extend_from_slice(bytes);
        let mut complete = Vec::new();
        while let Some(end) = end_of_event(&self.pending) {
            let rest = self.pending.split_off(end);
            let event = std::mem::replace(&mut self.pending, rest);
            if !std::mem::take(&mut self.is_too_long) {
                complete.push(event);
            }
        }
        complete
    }

    /// Returns whether the stream is between two events.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty() && !self.is_too_long
    }

    /// Returns the bytes of the incomplete event.
    pub(crate) fn pending(&self) -> &[u8] {
        &self.pending
    }

    /// Takes the bytes of the incomplete event.
    pub(crate) fn take_rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pending)
    }

    /// Returns whether the incomplete event is too long to observe.
    pub(crate) fn is_too_long(&self) -> bool {
        self.pending.len() > MAX_OBSERVED_BYTES
    }

    /// Drops the beginning of an event that is too long.
    pub(crate) fn forget(&mut self) {
        if self.is_too_long() {
            self.pending.clear();
            self.is_too_long = true;
        }
    }
}

/// Returns the data of an event.
pub(crate) fn data(event: &[u8]) -> Vec<u8> {
    let lines = event.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let data = lines.filter_map(|line| line.strip_prefix(b"data:")).map(|rest| rest.strip_prefix(b" ").unwrap_or(rest));
    data.collect::<Vec<_>>().join(&b'\n')
}

/// Returns the event with its only data line replaced.
pub(crate) fn with_data(event: &[u8], data: &[u8]) -> Option<Vec<u8>> {
    let before = self::data(event);
    if before.contains(&b'\n') || before.is_empty() {
        return None;
    }
    let place = memchr::memmem::find(event, &before)?;
    let (head, tail) = event.split_at_checked(place)?;
    Some([head, data, tail.get(before.len()..)?].concat())
}

fn end_of_event(bytes: &[u8]) -> Option<usize> {
    let line_feeds = memchr::memmem::find(bytes, b"\n\n").map(|place| place + 2);
    let with_returns = memchr::memmem::find(bytes, b"\r\n\r\n").map(|place| place + 4);
    match (line_feeds, with_returns) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_cut_and_read_in_any_pieces() {
        let stream = b": ping\n\nid: 1\r\nevent: message\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\ndata:x\n\nrest";
        for size in 1..stream.len() {
            let mut events = Events::default();
            let cut: Vec<Vec<u8>> = stream.chunks(size).flat_map(|piece| events.split(piece)).collect();
            assert_eq!(cut.concat(), stream[..stream.len() - 4], "{size}");
            assert_eq!(cut.iter().map(|event| data(event)).collect::<Vec<_>>(), [&b""[..], b"{\"a\":\n1}", b"x"]);
            assert_eq!(events.take_rest(), b"rest");
        }
    }

    #[test]
    fn data_is_replaced_in_place() {
        let event = b"id: 7\ndata: {\"a\":1}\n\n";
        assert_eq!(with_data(event, b"{}").unwrap(), b"id: 7\ndata: {}\n\n");
        assert_eq!(with_data(b"data: a\ndata: b\n\n", b"{}"), None);
        assert_eq!(with_data(b": ping\n\n", b"{}"), None);
    }
}
