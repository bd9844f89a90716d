//! Messages over a pair of streams: one JSON-RPC message per line, and an error response for any other line.
//!
//! rmcp has such a transport, but it silently drops lines that are too long or not JSON, so that their sender waits
//! forever, and it gives up if a notification arrives before the first request.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::json;

/// The maximum length of a line: an image of about 48 MB as base64.
const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;

/// The server's side of a pair of streams.
pub(super) struct Lines {
    incoming: mpsc::Receiver<ClientJsonRpcMessage>,
    outgoing: Outbox,
    opened: Arc<AtomicBool>,
}

impl Lines {
    /// Reads from one stream and writes to the other, each in its own task, so that a cancelled caller never loses its
    /// position in a line. Triggers `close` at the end of the input.
    pub(super) fn new<R, W>(reader: R, writer: W, close: Arc<watch::Sender<bool>>) -> Lines
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (to_writer, lines) = mpsc::channel(QUEUE);
        let (to_server, incoming) = mpsc::channel(QUEUE);
        let outgoing = Outbox { lines: to_writer, unread: Arc::default() };
        tokio::spawn(write(writer, lines));
        let reading = read(BufReader::new(reader), to_server, outgoing.clone());
        tokio::spawn(async move {
            reading.await;
            close.send_replace(true);
        });
        Lines { incoming, outgoing, opened: Arc::default() }
    }

    /// Returns the flag to set once the client has sent its first request. Other messages before that are ignored.
    pub(super) fn opened(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.opened)
    }
}

impl Transport<RoleServer> for Lines {
    type Error = io::Error;

    fn send(&mut self, message: ServerJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let outgoing = self.outgoing.clone();
        async move { outgoing.send(&message).await }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            // While a client does not read its responses, accept no further requests.
            self.outgoing.unread.wait().await;
            let message = self.incoming.recv().await?;
            if self.opened.load(Ordering::Relaxed) || matches!(message, ClientJsonRpcMessage::Request(_)) {
                return Some(message);
            }
            tracing::debug!("ignored a message before the first request");
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        // Every message was written before its `send` returned, and the tasks end with their streams.
        self.incoming.close();
        Ok(())
    }
}

/// The maximum number of messages waiting to be handled or written.
const QUEUE: usize = 16;

/// The maximum size of unwritten responses; above it, no further request is accepted.
const MAX_UNREAD_BYTES: usize = 8 * 1024 * 1024;

/// The sending side of the writer task.
#[derive(Clone)]
struct Outbox {
    lines: mpsc::Sender<OutgoingLine>,
    unread: Arc<Unread>,
}

/// The responses that are not written yet.
#[derive(Default)]
struct Unread {
    bytes: AtomicUsize,
    less: Notify,
}

impl Unread {
    /// Waits until there is space for another response.
    async fn wait(&self) {
        loop {
            let less = self.less.notified();
            if self.bytes.load(Ordering::Acquire) < MAX_UNREAD_BYTES {
                return;
            }
            less.await;
        }
    }

    fn add(self: &Arc<Unread>, bytes: usize) -> UnreadBytes {
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
        UnreadBytes { unread: Arc::clone(self), bytes }
    }
}

/// A response that is not written yet; dropped when it is written or its sender gives up.
struct UnreadBytes {
    unread: Arc<Unread>,
    bytes: usize,
}

impl Drop for UnreadBytes {
    fn drop(&mut self) {
        self.unread.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        self.unread.less.notify_waiters();
    }
}

/// A line to write, and the channel for its result.
struct OutgoingLine {
    bytes: Vec<u8>,
    written: oneshot::Sender<io::Result<()>>,
}

impl Outbox {
    /// Returns when the message has been written.
    async fn send(&self, message: &ServerJsonRpcMessage) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(message)?;
        bytes.push(b'\n');
        let _unread = self.unread.add(bytes.len());
        let (written, done) = oneshot::channel();
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        self.lines.send(OutgoingLine { bytes, written }).await.map_err(|_| gone())?;
        done.await.map_err(|_| gone())?
    }

    async fn refuse(&self, code: ErrorCode, why: String, id: Option<RequestId>) {
        let message = ServerJsonRpcMessage::error(ErrorData::new(code, why, None), id);
        if let Err(error) = self.send(&message).await {
            tracing::warn!(%error, "cannot write to the client");
        }
    }
}

async fn write(mut writer: impl AsyncWrite + Unpin, mut lines: mpsc::Receiver<OutgoingLine>) {
    while let Some(OutgoingLine { bytes, written }) = lines.recv().await {
        let result = match writer.write_all(&bytes).await {
            Ok(()) => writer.flush().await,
            failed => failed,
        };
        // The sender may have given up waiting for the result.
        let _ = written.send(result);
    }
}

async fn read(mut reader: impl AsyncBufRead + Unpin, messages: mpsc::Sender<ClientJsonRpcMessage>, outbox: Outbox) {
    loop {
        let line = match next_line(&mut reader, MAX_LINE_BYTES).await {
            Ok(Some(line)) => line,
            Ok(None) => return,
            Err(error) => return tracing::warn!(%error, "cannot read from the client"),
        };
        match line {
            Line::Whole(line) if line.trim_ascii().is_empty() => (),
            Line::Whole(line) => match parse(&line) {
                Ok(Some(message)) => {
                    if messages.send(message).await.is_err() {
                        return;
                    }
                }
                Ok(None) => (),
                Err((code, why, id)) => outbox.refuse(code, why, id).await,
            },
            Line::TooLong(id) => {
                let why = format!(
                    "a message may take {MAX_LINE_BYTES} bytes; give large images to record-iteration as paths, not as base64"
                );
                outbox.refuse(ErrorCode::INVALID_REQUEST, why, id).await;
            }
        }
    }
}

/// A line that was read.
#[derive(Debug, PartialEq)]
enum Line {
    /// All of it.
    Whole(Vec<u8>),
    /// It is too long; with the id of the request, if that is in the part that was read.
    TooLong(Option<RequestId>),
}

/// Reads the next line; `None` at the end of the stream.
async fn next_line(reader: &mut (impl AsyncBufRead + Unpin), most: usize) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    // One byte more than allowed distinguishes a line that just fits from one that does not.
    let piece = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    if (&mut *reader).take(piece).read_until(b'\n', &mut line).await? == 0 {
        return Ok(None);
    }
    if line.ends_with(b"\n") || line.len() <= most {
        return Ok(Some(Line::Whole(line)));
    }
    let id = json::request_id(&line);
    loop {
        line.clear();
        if (&mut *reader).take(piece).read_until(b'\n', &mut line).await? == 0 || line.ends_with(b"\n") {
            return Ok(Some(Line::TooLong(id)));
        }
    }
}

/// The code, the reason, and the id of the request.
pub(super) type Refused = (ErrorCode, String, Option<RequestId>);

/// Parses a line; `None` for a notification that is not handled.
pub(super) fn parse(line: &[u8]) -> Result<Option<ClientJsonRpcMessage>, Refused> {
    // RFC 8259 allows readers to skip the byte order mark, which some Windows programs write.
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
    if !json::has_bounded_values(line) {
        let why = format!("a message may have at most {} values", json::MAX_VALUES);
        return Err((ErrorCode::INVALID_REQUEST, why, json::request_id(line)));
    }
    if let Ok(message) = serde_json::from_slice(line) {
        return Ok(Some(message));
    }
    let value: Value = serde_json::from_slice(line)
        .map_err(|error| (ErrorCode::PARSE_ERROR, format!("not one line of JSON: {error}"), json::request_id(line)))?;
    let refused = |why: &str, id| Err((ErrorCode::INVALID_REQUEST, why.to_owned(), id));
    let Value::Object(message) = value else {
        return refused("send one JSON-RPC 2.0 message a line: batches are not served", None);
    };
    match message.get("id") {
        None if message.contains_key("method") => Ok(None),
        id => {
            let id = id.and_then(|id| serde_json::from_value(id.clone()).ok());
            refused("not a JSON-RPC 2.0 request with jsonrpc, id and method", id)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_overlong_line_affects_only_itself() {
        let mut reader = &b"12345\n1234567\n12345678901234567890\n\n123456\nlast"[..];
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut reader, 6).await.unwrap() {
            lines.push(line);
        }
        let whole = |text: &str| Line::Whole(text.as_bytes().to_vec());
        let long = || Line::TooLong(None);
        assert_eq!(lines, [whole("12345\n"), long(), long(), whole("\n"), whole("123456\n"), whole("last")]);
        let mut reader = &b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\"}\n"[..];
        let line = next_line(&mut reader, 30).await.unwrap();
        assert_eq!(line, Some(Line::TooLong(Some(RequestId::Number(7)))), "its sender need not wait for a timeout");
    }

    #[tokio::test]
    async fn reading_pauses_while_the_client_does_not_read() {
        let (ours, theirs) = tokio::io::duplex(1024);
        let (reader, writer) = tokio::io::split(ours);
        let (mut their_reader, mut their_writer) = tokio::io::split(theirs);
        let mut lines = Lines::new(reader, writer, Arc::new(watch::channel(false).0));
        let outbox = lines.outgoing.clone();
        let answers = tokio::spawn(async move {
            for _ in 0..2 {
                outbox.refuse(ErrorCode::INTERNAL_ERROR, "x".repeat(MAX_UNREAD_BYTES), None).await;
            }
        });
        their_writer.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").await.unwrap();
        while lines.outgoing.unread.bytes.load(Ordering::Acquire) == 0 {
            tokio::task::yield_now().await;
        }
        let mut next = Box::pin(lines.receive());
        for _ in 0..1000 {
            tokio::task::yield_now().await;
            let polled = std::future::poll_fn(|context| std::task::Poll::Ready(next.as_mut().poll(context))).await;
            assert!(polled.is_pending(), "a request was taken up although answers wait");
        }
        let drained = tokio::spawn(async move { tokio::io::copy(&mut their_reader, &mut tokio::io::sink()).await });
        assert!(next.await.is_some());
        answers.await.unwrap();
        drained.abort();
    }

    #[test]
    fn invalid_messages_are_refused_with_their_id() {
        let refused = |line: &str| parse(line.as_bytes()).unwrap_err();
        assert_eq!(refused("{").0, ErrorCode::PARSE_ERROR);
        assert_eq!(refused("\u{0}").0, ErrorCode::PARSE_ERROR);
        assert_eq!(parse(b"\"\xff\"").unwrap_err().0, ErrorCode::PARSE_ERROR);
        for line in ["[]", "7", "null", "{}", r#"{"jsonrpc":"2.0","id":{}}"#] {
            let (code, _, id) = refused(line);
            assert_eq!((code, id), (ErrorCode::INVALID_REQUEST, None), "{line}");
        }
        let deep =
            format!(r#"{{"jsonrpc":"2.0","id":7,"method":"x","params":{}1{}}}"#, "[".repeat(200), "]".repeat(200));
        let many = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"x","params":[{}0]}}"#, "0,".repeat(json::MAX_VALUES));
        assert_eq!(refused(&many).2, Some(RequestId::Number(7)));
        for line in [r#"{"jsonrpc":"2.0","method":"x","params":{"prompt":"\ud83d","id":1},"id":7}"#, deep.as_str()] {
            let (code, _, id) = refused(line);
            assert_eq!((code, id), (ErrorCode::PARSE_ERROR, Some(RequestId::Number(7))), "{line}");
        }
        let (code, _, id) = refused(r#"{"id":"seven","method":"tools/list"}"#);
        assert_eq!((code, id), (ErrorCode::INVALID_REQUEST, Some(RequestId::String("seven".into()))));
    }

    #[test]
    fn a_byte_order_mark_and_unknown_notifications_are_ignored() {
        assert!(parse(b"\xEF\xBB\xBF{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}").unwrap().is_some());
        assert!(parse(br#"{"method":"$/setTrace","params":{}}"#).unwrap().is_none());
    }
}
