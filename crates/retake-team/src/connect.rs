//! Connections: the runtime, a bounded pool, and calls that are retried until they succeed, fail permanently, or time
//! out. `direct` has one more connection, for a thread that calls while no other does.
//!
//! A call is retried only if repeating it is safe: reads are, and appends are because of their idempotency key. A
//! connection with any error is closed rather than reused, since a transaction may be open on it.

use std::error::Error as _;
use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use deadpool_postgres::{
    ClientWrapper, Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime,
};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::{sleep, timeout};
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;

use super::config::TlsMode;
use super::direct::{Direct, DirectTurn};
use super::{Config, Error, tls};

/// How long a call is retried before a warning states the reason.
const NOTICE_AFTER: Duration = Duration::from_secs(2);
/// The longest wait for a lock, except after [`begin_patiently`]. What another process has locked must not delay
/// statements that also concern something else.
const LOCK_TIMEOUT: Duration = Duration::from_millis(200);
/// The smallest number of connections of which one is direct. Two are left for attempts that take a second one.
const MIN_SIZE_WITH_DIRECT: usize = 3;
/// The shortest and the longest pause between two attempts.
pub(crate) const BACKOFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// A server and the connections to it.
pub(crate) struct Server {
    pub(crate) config: Config,
    pool: Pool,
    runtime: Option<tokio::runtime::Runtime>,
    /// `None` if the pool would be too small without its connection.
    direct: Option<Direct>,
}

/// The result of one attempt of a call.
pub(crate) type Attempt<'a, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'a>>;

/// The reason why an attempt failed.
pub(crate) enum Failure {
    /// Another attempt may succeed.
    Retry(String),
    /// No further attempt will succeed.
    Final(Error),
}

/// A connection from the pool. It is returned only by [`done`](Lease::done).
pub(crate) struct Lease {
    object: Option<Object>,
}

impl Server {
    /// Creates the runtime and the pool, without connecting.
    pub(crate) fn new(config: Config) -> Result<Arc<Server>, Error> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("retake-team")
            .enable_all()
            .build()
            .map_err(Error::Runtime)?;
        let (pooled, direct) = match config.pool_size {
            size @ ..MIN_SIZE_WITH_DIRECT => (size, None),
            size => (size - 1, Some(Direct::default())),
        };
        let pool = pool(&config, pooled)?;
        Ok(Arc::new(Server { config, pool, runtime: Some(runtime), direct }))
    }

    /// Runs `attempt` until it succeeds, fails permanently, or times out. May be called from any thread, including
    /// async ones.
    pub(crate) fn call<T, F>(self: &Arc<Self>, attempt: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: for<'a> Fn(&'a Lease) -> Attempt<'a, T> + Send + Sync + 'static,
    {
        match self.runtime_for_this_thread() {
            Some(runtime) => runtime.block_on(self.retry(&attempt)),
            None => self.call_in_background(attempt),
        }
    }

    /// Does the same on the threads of the runtime, where an attempt may take further connections.
    pub(crate) fn call_in_background<T, F>(self: &Arc<Self>, attempt: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: for<'a> Fn(&'a Lease) -> Attempt<'a, T> + Send + Sync + 'static,
    {
        let (sender, receiver) = mpsc::sync_channel(1);
        let server = Arc::clone(self);
        self.spawn(async move {
            let answer = server.retry(&attempt).await;
            // A task must not hold the last reference: a runtime cannot be dropped by one of its own threads.
            drop(attempt);
            drop(server);
            let _ = sender.send(answer);
        });
        receiver.recv().unwrap_or_else(|_| Err(Error::Misuse("the workspace was closed".to_owned())))
    }

    /// Runs a task on this thread if it may wait, which saves waking up another one, or else in the background. The
    /// caller holds a reference to this server meanwhile.
    pub(crate) fn run(&self, task: impl Future<Output = ()> + Send + 'static) {
        match self.runtime_for_this_thread() {
            Some(runtime) => runtime.block_on(task),
            None => self.spawn(task),
        }
    }

    /// Returns a runtime on which this thread may wait; `None` if it belongs to one, whose tasks must not wait.
    fn runtime_for_this_thread(&self) -> Option<CallerRuntime<'_>> {
        if Handle::try_current().is_ok() {
            return None;
        }
        let turn = self.direct.as_ref().and_then(|direct| direct.try_turn(&self.config));
        turn.map(CallerRuntime::Direct).or_else(|| self.runtime.as_ref().map(CallerRuntime::Shared))
    }

    /// Runs a task in the background.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            runtime.spawn(task);
        }
    }

    /// Retries `attempt` as [`call`](Server::call) does.
    pub(crate) async fn retry<T>(
        &self,
        attempt: &(impl for<'a> Fn(&'a Lease) -> Attempt<'a, T> + Send + Sync),
    ) -> Result<T, Error> {
        let started = Instant::now();
        let mut pause = BACKOFF.0;
        let mut is_reported = false;
        loop {
            let problem = match timeout(self.config.attempt_timeout + Duration::from_secs(1), self.once(attempt)).await
            {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(Failure::Final(error))) => return Err(self.named(error)),
                Ok(Err(Failure::Retry(problem))) => problem,
                Err(_) => "no answer".to_owned(),
            };
            let waited = started.elapsed();
            if waited + pause >= self.config.call_timeout {
                return Err(Error::Unreachable { server: self.config.server(), waited, problem });
            }
            let server = self.config.server();
            if waited >= NOTICE_AFTER && !is_reported {
                is_reported = true;
                tracing::warn!("waiting for PostgreSQL at {server}: {problem}");
            }
            tracing::debug!(server, problem, "the database call is tried again");
            sleep(pause).await;
            pause = (pause * 2).min(BACKOFF.1);
        }
    }

    async fn once<T>(
        &self,
        attempt: &(impl for<'a> Fn(&'a Lease) -> Attempt<'a, T> + Send + Sync),
    ) -> Result<T, Failure> {
        let lease = self.lease().await?;
        let answer = attempt(&lease).await;
        // After an error the connection may be broken or inside a transaction.
        if answer.is_ok() {
            lease.done();
        }
        answer
    }

    /// Takes a connection of the runtime that polls this.
    pub(crate) async fn lease(&self) -> Result<Lease, Failure> {
        let is_direct = Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread;
        let direct = self.direct.as_ref().filter(|_| is_direct).and_then(Direct::pool);
        match direct.as_ref().unwrap_or(&self.pool).get().await {
            Ok(object) => Ok(Lease { object: Some(object) }),
            Err(PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error))) => {
                Err(classify(error))
            }
            Err(PoolError::Timeout(_)) => Err(Failure::Retry("no connection became free or could be made".to_owned())),
            Err(other) => Err(Failure::Final(Error::Misuse(other.to_string()))),
        }
    }

    /// Adds the server's name to an error.
    pub(crate) fn named(&self, error: Error) -> Error {
        match error {
            Error::Denied { problem, .. } => Error::Denied { server: self.config.server(), problem },
            Error::NoWorkspace { .. } => {
                Error::NoWorkspace { schema: self.config.schema.clone(), server: self.config.to_string() }
            }
            other => other,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.pool.close();
        if let Some(direct) = &self.direct {
            direct.close();
        }
        if let Some(runtime) = self.runtime.take() {
            // Blocking is not allowed on an async thread, and not necessary: calls block their callers.
            runtime.shutdown_background();
        }
    }
}

/// A runtime on which a calling thread waits.
enum CallerRuntime<'a> {
    /// The thread drives its connection itself.
    Direct(DirectTurn<'a>),
    /// The threads of the runtime drive the connection, and wake this one.
    Shared(&'a tokio::runtime::Runtime),
}

impl CallerRuntime<'_> {
    fn block_on<T>(self, task: impl Future<Output = T>) -> T {
        match self {
            CallerRuntime::Direct(turn) => turn.block_on(task),
            CallerRuntime::Shared(runtime) => runtime.block_on(task),
        }
    }
}

impl Lease {
    /// Returns the connection to the pool.
    pub(crate) fn done(mut self) {
        drop(self.object.take());
    }
}

impl Deref for Lease {
    type Target = ClientWrapper;

    #[expect(clippy::expect_used, reason = "only `done` and `drop` take the object, and both end the lease")]
    fn deref(&self) -> &ClientWrapper {
        self.object.as_ref().expect("the lease is not over")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(object) = self.object.take() {
            // Close the connection, so that the server rolls back.
            drop(Object::take(object));
        }
    }
}

/// Creates a pool of at most `size` connections, which are driven by the runtime that first uses them.
pub(crate) fn pool(config: &Config, size: usize) -> Result<Pool, Error> {
    let settings = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = match &config.tls {
        TlsMode::Plaintext => Manager::from_config(config.postgres.clone(), NoTls, settings),
        TlsMode::Verified(authorities) => {
            Manager::from_config(config.postgres.clone(), tls::connector(authorities.as_deref())?, settings)
        }
    };
    let set_up = session_settings(config.attempt_timeout);
    let hook = Hook::async_fn(move |client, _| {
        let set_up = set_up.clone();
        Box::pin(async move { client.batch_execute(&set_up).await.map_err(HookError::Backend) })
    });
    Pool::builder(manager)
        .max_size(size)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(config.attempt_timeout))
        .create_timeout(Some(config.attempt_timeout))
        .recycle_timeout(Some(Duration::from_secs(2)))
        .post_create(hook)
        .build()
        .map_err(|error| Error::Config(error.to_string()))
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Failure {
        classify(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Final(error)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Retry(problem) => write!(f, "Retry({problem})"),
            Failure::Final(error) => write!(f, "Final({error})"),
        }
    }
}

/// Returns the session settings: every wait on the server is bounded, and a vanished client releases its locks. Plans are
/// kept, since every statement has one good plan whatever its parameters, and planning a page takes longer than reading
/// it.
pub(crate) fn session_settings(attempt_timeout: Duration) -> String {
    let (millis, lock_millis) = (attempt_timeout.as_millis(), attempt_timeout.min(LOCK_TIMEOUT).as_millis());
    format!(
        "SET statement_timeout = {millis}; SET lock_timeout = {lock_millis}; \
         SET idle_in_transaction_session_timeout = {millis}; SET client_connection_check_interval = 1000; \
         SET default_transaction_isolation = 'read committed'; SET jit = off; \
         SET plan_cache_mode = force_generic_plan"
    )
}

/// Returns what begins a transaction that waits for locks as long as an attempt may take.
pub(crate) fn begin_patiently(attempt_timeout: Duration) -> String {
    format!("BEGIN; SET LOCAL lock_timeout = {}", attempt_timeout.as_millis())
}

fn classify(error: tokio_postgres::Error) -> Failure {
    let Some(answer) = error.as_db_error() else {
        let problem = with_sources(&error);
        let final_answer =
            ["TLS handshake", "authentication", "invalid configuration"].iter().any(|word| problem.contains(word));
        return if final_answer {
            Failure::Final(Error::Denied { server: String::new(), problem })
        } else {
            Failure::Retry(problem)
        };
    };
    let code = answer.code();
    let problem = answer.message().to_owned();
    const PASSING: [&SqlState; 11] = [
        &SqlState::ADMIN_SHUTDOWN,
        &SqlState::CRASH_SHUTDOWN,
        &SqlState::CANNOT_CONNECT_NOW,
        &SqlState::TOO_MANY_CONNECTIONS,
        &SqlState::T_R_SERIALIZATION_FAILURE,
        &SqlState::T_R_DEADLOCK_DETECTED,
        &SqlState::READ_ONLY_SQL_TRANSACTION,
        &SqlState::LOCK_NOT_AVAILABLE,
        &SqlState::QUERY_CANCELED,
        &SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        &SqlState::IDLE_SESSION_TIMEOUT,
    ];
    if PASSING.contains(&code) || code.code().starts_with("08") || code.code() == KEY_KNOWN {
        return Failure::Retry(problem);
    }
    if [SqlState::INVALID_SQL_STATEMENT_NAME, SqlState::DUPLICATE_PSTATEMENT].contains(code) {
        return Failure::Final(Error::Pooler);
    }
    Failure::Final(if code.code().starts_with("28") || *code == SqlState::UNDEFINED_DATABASE {
        Error::Denied { server: String::new(), problem }
    } else if [SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME, SqlState::UNDEFINED_FUNCTION].contains(code) {
        Error::NoWorkspace { schema: String::new(), server: problem }
    } else {
        Error::Server(format!("{problem} ({})", code.code()))
    })
}

/// The SQLSTATE with which `append` reports a known key.
pub(crate) const KEY_KNOWN: &str = "RT004";

fn with_sources(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
