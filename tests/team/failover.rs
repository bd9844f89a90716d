//! Three PostgreSQL nodes under Patroni and etcd, whose leader is killed repeatedly while writers are active.
//!
//! Takes about ten minutes, so it only runs with `RETAKE_TEST_FAILOVER=1`.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use retake_team::PgLog;
use retake_testutils::{record, start};

use super::carrier::{Carrier, contents};
use super::proxy::{Mode, Proxy};
use super::servers::free_port;

const KILLS: usize = 10;
const WRITERS: usize = 6;
const HOW_TO_RUN: &str = "takes ten minutes: RETAKE_TEST_FAILOVER=1, with the Debian packages patroni and etcd-server";

pub(crate) fn trials() -> Vec<Trial> {
    let wanted = std::env::var("RETAKE_TEST_FAILOVER").is_ok_and(|value| value == "1");
    let test = || {
        failover();
        Ok(())
    };
    let trial = Trial::test("failover::killed_leaders_lose_nothing_acknowledged", test);
    vec![trial.with_kind(if wanted { "" } else { HOW_TO_RUN }).with_ignored_flag(!wanted)]
}

struct Cluster {
    dir: PathBuf,
    etcd: Child,
    etcd_port: u16,
    nodes: Vec<Node>,
}

struct Node {
    name: String,
    port: u16,
    rest: u16,
    patroni: Option<Child>,
}

impl Cluster {
    fn start() -> Cluster {
        let dir = PathBuf::from(format!("/tmp/rt-ha-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let (client, peer) = (free_port(), free_port());
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let etcd = Command::new("etcd")
            .args(["--name", "etcd", "--data-dir", dir.join("etcd").to_str().unwrap()])
            .args(["--listen-client-urls", &url(client), "--advertise-client-urls", &url(client)])
            .args(["--listen-peer-urls", &url(peer), "--initial-advertise-peer-urls", &url(peer)])
            .args(["--initial-cluster", &format!("etcd={}", url(peer))])
            .stdin(Stdio::null())
            .stdout(File::create(dir.join("etcd.out")).unwrap())
            .stderr(File::create(dir.join("etcd.err")).unwrap())
            .spawn()
            .unwrap();
        let nodes =
            (1..=3).map(|n| Node { name: format!("node{n}"), port: free_port(), rest: free_port(), patroni: None });
        let mut cluster = Cluster { dir, etcd, etcd_port: client, nodes: nodes.collect() };
        cluster.nodes.iter().for_each(|node| fs::write(cluster.config(node), cluster.patroni_yaml(node)).unwrap());
        assert!(Command::new("chown").args(["-R", "postgres"]).arg(&cluster.dir).status().unwrap().success());
        for n in 0..3 {
            cluster.start_node(n);
        }
        cluster.wait_healthy();
        cluster
    }

    fn config(&self, node: &Node) -> PathBuf {
        self.dir.join(format!("{}.yml", node.name))
    }

    fn patroni_yaml(&self, node: &Node) -> String {
        let Node { name, port, rest, .. } = node;
        let dir = self.dir.display();
        let etcd = self.etcd_port;
        format!(
            "scope: retake\nname: {name}\n\
             restapi: {{listen: '127.0.0.1:{rest}', connect_address: '127.0.0.1:{rest}'}}\n\
             etcd3: {{host: '127.0.0.1:{etcd}'}}\n\
             bootstrap:\n  dcs:\n    ttl: 20\n    loop_wait: 2\n    retry_timeout: 5\n    primary_start_timeout: 0\n    \
             synchronous_mode: true\n    synchronous_mode_strict: true\n    maximum_lag_on_failover: 33554432\n    \
             postgresql:\n      use_pg_rewind: true\n      parameters: {{max_connections: 60, wal_log_hints: 'on', \
             synchronous_commit: 'on', shared_buffers: '64MB'}}\n  initdb:\n  - encoding: UTF8\n  - data-checksums\n\
             postgresql:\n  listen: 127.0.0.1:{port}\n  connect_address: 127.0.0.1:{port}\n  data_dir: {dir}/{name}\n  \
             bin_dir: /usr/lib/postgresql/15/bin\n  pgpass: {dir}/{name}.pgpass\n  authentication:\n    \
             superuser: {{username: postgres, password: secret}}\n    replication: {{username: replicator, password: secret}}\n    \
             rewind: {{username: rewinder, password: secret}}\n  pg_hba:\n  - local all all trust\n  \
             - host all all 127.0.0.1/32 trust\n  - host replication all 127.0.0.1/32 trust\n  \
             basebackup:\n  - checkpoint: fast\n  parameters: {{unix_socket_directories: '{dir}'}}\n"
        )
    }

    fn start_node(&mut self, n: usize) {
        let config = self.config(&self.nodes[n]);
        let log = File::options().create(true).append(true).open(self.dir.join(format!("node{}.log", n + 1))).unwrap();
        let patroni = Command::new("runuser")
            .args(["-u", "postgres", "--", "patroni"])
            .arg(config)
            .current_dir("/tmp")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.nodes[n].patroni = Some(patroni);
    }

    /// Returns the current leader.
    fn leader(&self) -> Option<usize> {
        (0..3).find(|n| status(self.nodes[*n].rest, "/leader") == Some(200))
    }

    /// Waits for a leader and two streaming replicas, one of them synchronous.
    fn wait_healthy(&self) {
        let started = Instant::now();
        let healthy = || {
            let count = |path: &str| self.nodes.iter().filter(|node| status(node.rest, path) == Some(200)).count();
            self.leader().is_some() && count("/replica") == 2 && count("/synchronous") == 1
        };
        while !healthy() {
            assert!(started.elapsed() < Duration::from_secs(240), "the cluster does not become healthy");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Kills a node: PostgreSQL and Patroni at once, or PostgreSQL alone.
    fn kill(&mut self, n: usize, patroni_too: bool) {
        let pid = fs::read_to_string(self.dir.join(format!("node{}/postmaster.pid", n + 1))).unwrap();
        let postmaster = pid.lines().next().unwrap().to_owned();
        if patroni_too {
            // runuser's child is Patroni itself.
            let runuser = self.nodes[n].patroni.as_mut().unwrap();
            for child in children_of(runuser.id()) {
                kill(&child.to_string());
            }
            kill(&postmaster);
            runuser.wait().unwrap();
        } else {
            kill(&postmaster);
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for n in 0..3 {
            if let Some(mut runuser) = self.nodes[n].patroni.take() {
                children_of(runuser.id()).into_iter().for_each(|child| kill(&child.to_string()));
                let _ = runuser.wait();
            }
            if let Ok(pid) = fs::read_to_string(self.dir.join(format!("node{}/postmaster.pid", n + 1))) {
                kill(pid.lines().next().unwrap_or_default());
            }
        }
        let _ = self.etcd.kill();
        let _ = self.etcd.wait();
        if std::thread::panicking() {
            eprintln!("logs are in {}", self.dir.display());
        } else {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

fn kill(pid: &str) {
    let _ = Command::new("kill").args(["-KILL", pid]).status();
}

fn children_of(pid: u32) -> Vec<u32> {
    let list = fs::read_to_string(Path::new("/proc").join(format!("{pid}/task/{pid}/children"))).unwrap_or_default();
    list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Returns the status of a GET on Patroni's REST interface.
fn status(port: u16, path: &str) -> Option<u16> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(3))).ok()?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).ok()?;
    let mut answer = [0; 64];
    let length = stream.read(&mut answer).ok()?;
    String::from_utf8_lossy(&answer[..length]).split(' ').nth(1)?.parse().ok()
}

fn failover() {
    let mut cluster = Cluster::start();
    // A network between the writers and each node, which can be cut.
    let proxies: Vec<Proxy> = cluster.nodes.iter().map(|node| Proxy::to(node.port)).collect();
    let hosts = proxies.iter().map(|proxy| format!("127.0.0.1:{}", proxy.port)).collect::<Vec<_>>().join(",");
    let url = format!("postgres://postgres@{hosts}/postgres?schema=retake&call_timeout=180&attempt_timeout=5");
    PgLog::init(url.parse().unwrap(), "test", "file:///nowhere", None).unwrap();
    let log = Arc::new(PgLog::open(url.parse().unwrap()).unwrap());
    let done = Arc::new(AtomicBool::new(false));
    let last_ack = Arc::new(Mutex::new((Instant::now(), Duration::ZERO)));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (log, done, last_ack) = (Arc::clone(&log), Arc::clone(&done), Arc::clone(&last_ack));
            std::thread::spawn(move || {
                let mut acknowledged = Vec::new();
                for n in 0.. {
                    if done.load(Ordering::Acquire) {
                        break;
                    }
                    let id = log.append(start("a", n, &format!("{writer} {n}"))).unwrap().head.id;
                    let head = log.append(record(id, "b", n, &format!("{writer} {n} b"))).unwrap().head;
                    acknowledged.push((id, head.next_seq, head.tip));
                    let mut last = last_ack.lock().unwrap();
                    last.1 = last.1.max(last.0.elapsed());
                    last.0 = Instant::now();
                }
                acknowledged
            })
        })
        .collect();
    let mut gaps = Vec::new();
    for round in 0..KILLS {
        let leader = cluster.leader().expect("there is a leader");
        last_ack.lock().unwrap().1 = Duration::ZERO;
        let kind = match round % 3 {
            0 => "PostgreSQL and Patroni killed",
            1 => "PostgreSQL killed",
            _ => "network cut, then killed",
        };
        if round % 3 == 2 {
            // The leader is alive but unreachable; then it dies.
            proxies[leader].set(Mode::Blackhole);
            std::thread::sleep(Duration::from_secs(2));
        }
        cluster.kill(leader, round % 3 != 1);
        let killed = Instant::now();
        let resumed = || last_ack.lock().unwrap().0 > killed + Duration::from_millis(100);
        while !resumed() {
            assert!(killed.elapsed() < Duration::from_secs(170), "writers did not resume");
            std::thread::sleep(Duration::from_millis(20));
        }
        proxies[leader].set(Mode::Pass);
        proxies[leader].close_all();
        let gap = last_ack.lock().unwrap().1;
        eprintln!("kill {}: {kind}: no acknowledgement for {:.1} s", round + 1, gap.as_secs_f64());
        gaps.push(gap);
        if round % 3 != 1 {
            cluster.start_node(leader);
        }
        cluster.wait_healthy();
    }
    done.store(true, Ordering::Release);
    let mut count = 0;
    for writer in writers {
        for (id, next_seq, tip) in writer.join().unwrap() {
            let head = log.head(id).unwrap();
            assert!(head.is_some_and(|head| head.next_seq == next_seq && head.tip == tip), "{id} was acknowledged");
            count += 2;
        }
    }
    let found = contents(&*log);
    for (n, (head, events)) in found.sessions.iter().enumerate() {
        assert_eq!((head.id.number().get() as usize, events.len()), (n + 1, 3), "gap-free, nothing doubled");
    }
    assert_eq!(Carrier::problems(&*log), Vec::<String>::new());
    let longest = gaps.iter().max().unwrap();
    eprintln!("{KILLS} kills, {count} acknowledged writes, 0 lost; longest gap {:.1} s", longest.as_secs_f64());
}
