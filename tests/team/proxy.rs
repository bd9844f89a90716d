//! A TCP proxy on loopback that delays, cuts or drops the traffic.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What the proxy does with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Pass,
    /// Delays every chunk by this long.
    Delay(Duration),
    /// Accepts everything and forwards nothing, without closing connections.
    Blackhole,
    /// Like `Blackhole`, but only for responses: requests arrive.
    LoseAnswers,
    /// Closes connections and accepts no new ones.
    Cut,
}

pub(crate) struct Proxy {
    pub(crate) port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    target: u16,
    mode: Mutex<Mode>,
    open: Mutex<Vec<TcpStream>>,
    to_server: AtomicU64,
    refused: AtomicU64,
}

impl Proxy {
    pub(crate) fn to(target: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            target,
            mode: Mutex::new(Mode::Pass),
            open: Mutex::default(),
            to_server: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if *accepting.mode.lock().unwrap() == Mode::Cut {
                    accepting.refused.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", accepting.target)) else { continue };
                accepting.open.lock().unwrap().extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                for (from, to, upstream) in
                    [(client.try_clone().unwrap(), server.try_clone().unwrap(), true), (server, client, false)]
                {
                    let shared = Arc::clone(&accepting);
                    thread::spawn(move || shared.pump(from, to, upstream));
                }
            }
        });
        Proxy { port, shared }
    }

    /// Changes the mode from now on.
    pub(crate) fn set(&self, mode: Mode) {
        *self.shared.mode.lock().unwrap() = mode;
        if mode == Mode::Cut {
            self.close_all();
        }
    }

    /// Returns the number of refused connections.
    pub(crate) fn refused(&self) -> u64 {
        self.shared.refused.load(Ordering::Relaxed)
    }

    /// Closes the existing connections.
    pub(crate) fn close_all(&self) {
        for stream in self.shared.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Returns the number of bytes that clients have sent through it.
    pub(crate) fn sent(&self) -> u64 {
        self.shared.to_server.load(Ordering::Acquire)
    }
}

impl Shared {
    fn pump(&self, mut from: TcpStream, mut to: TcpStream, upstream: bool) {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            if upstream {
                self.to_server.fetch_add(length as u64, Ordering::AcqRel);
            }
            let mode = *self.mode.lock().unwrap();
            match mode {
                Mode::Pass => {}
                Mode::Delay(time) => thread::sleep(time),
                Mode::LoseAnswers if upstream => {}
                Mode::Blackhole | Mode::LoseAnswers => continue,
                Mode::Cut => break,
            }
            if to.write_all(&buffer[..length]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    }
}
