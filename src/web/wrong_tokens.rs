//! Rate-limits wrong tokens: a client that has presented too many is refused for a while, so that tokens cannot be
//! guessed.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The maximum number of wrong tokens per client within [`WINDOW`].
const MAX_WRONG_TOKENS: u32 = 20;
/// How long wrong tokens count, and the maximum time for which a client is refused.
const WINDOW: Duration = Duration::from_secs(60);
/// The maximum number of clients tracked individually; all others count as one.
const MAX_CLIENTS: usize = 1024;

/// The address of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Peer(pub(super) IpAddr);

/// The wrong tokens of every client.
#[derive(Default)]
pub(super) struct WrongTokens {
    clients: Mutex<HashMap<Option<IpAddr>, (u32, Instant)>>,
}

impl WrongTokens {
    /// Returns whether a client is currently refused.
    pub(super) fn is_refused(&self, peer: Option<Peer>, now: Instant) -> bool {
        let mut clients = self.clients.lock();
        clients.retain(|_, (_, since)| now.saturating_duration_since(*since) < WINDOW);
        let known = |key| clients.get(&key).is_some_and(|(count, _)| *count >= MAX_WRONG_TOKENS);
        known(key(peer)) || (clients.len() >= MAX_CLIENTS && known(None))
    }

    /// Counts a wrong token.
    pub(super) fn count(&self, peer: Option<Peer>, now: Instant) {
        let mut clients = self.clients.lock();
        let full = clients.len() >= MAX_CLIENTS;
        let key = key(peer).filter(|address| !full || clients.contains_key(&Some(*address)));
        clients.entry(key).or_insert((0, now)).0 += 1;
    }
}

/// Returns the key under which a client is counted: for IPv6 the network half, since clients choose the rest
/// themselves.
fn key(peer: Option<Peer>) -> Option<IpAddr> {
    peer.map(|Peer(address)| match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        v4 => v4,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &str) -> Option<Peer> {
        Some(Peer(address.parse().unwrap()))
    }

    #[test]
    fn too_many_wrong_tokens_are_refused_for_a_while_and_only_from_there() {
        let (wrong_tokens, start) = (WrongTokens::default(), Instant::now());
        for _ in 0..MAX_WRONG_TOKENS {
            assert!(!wrong_tokens.is_refused(peer("10.0.0.7"), start));
            wrong_tokens.count(peer("10.0.0.7"), start);
        }
        assert!(wrong_tokens.is_refused(peer("10.0.0.7"), start));
        assert!(wrong_tokens.is_refused(peer("::ffff:10.0.0.7"), start));
        assert!(!wrong_tokens.is_refused(peer("10.0.0.8"), start));
        assert!(!wrong_tokens.is_refused(peer("10.0.0.7"), start + WINDOW));
    }

    #[test]
    fn another_address_of_the_same_network_is_the_same_client_and_memory_is_bounded() {
        let (wrong_tokens, start) = (WrongTokens::default(), Instant::now());
        for number in 0..MAX_WRONG_TOKENS {
            wrong_tokens.count(peer(&format!("2001:db8::{number:x}")), start);
        }
        assert!(wrong_tokens.is_refused(peer("2001:db8::ffff"), start));
        for number in 0..5000_u32 {
            wrong_tokens.count(Some(Peer(IpAddr::from(number.to_be_bytes()))), start);
        }
        assert!(wrong_tokens.clients.lock().len() <= MAX_CLIENTS + 1);
    }
}
