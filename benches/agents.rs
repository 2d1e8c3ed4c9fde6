//! How many agents does a coordinator bear? So many of them, each a thread of this process, come to a real `msgpath mesh --listen` over
//! loopback and are measured in pairs, eight at a time.
//!
//!     cargo bench --bench agents -- [AGENTS]      2000 unless told
//!
//! It says how long they took to come, what the coordinator took of memory, threads and CPU, and how long a pair was under way. All
//! orders and reports pass the coordinator.

use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use msgpath_agent::join::Caller;
use msgpath_agent::role::{Found, FoundBy, Role};
use msgpath_agent::token::Token;
use msgpath_agent::{Lease, Peer, Reach, Terms, session, wire};
use msgpath_sys::limits::allow_open_files;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Descriptors of an agent here: its connection twice, and those of a round.
const FILES: u64 = 6;
/// A mesh that takes longer is given up.
const LONGEST: Duration = Duration::from_secs(900);

fn main() {
    let agents: u32 = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(2_000);
    let wanted = u64::from(agents) * FILES + 256;
    let allowed = allow_open_files(wanted).expect("the limit can be read");
    if allowed < wanted {
        return println!("skipped: {agents} agents need {wanted} open files, and {allowed} are allowed (ulimit -Hn)");
    }
    let home = tempfile::tempdir().expect("a temporary folder");
    let file = home.path().join("token");
    assert!(Token::make(&file).expect("a token"), "it is new");
    let port = TcpListener::bind((LOOPBACK, 0)).and_then(|free| free.local_addr()).expect("a free port").port();
    let place = format!("127.0.0.1:{port}");
    let count = agents.to_string();
    let mut mesh = Command::new(env!("CARGO_BIN_EXE_msgpath"))
        .args([
            "mesh",
            "--listen",
            &place,
            "--token-file",
            "token",
            "--expect",
            &count,
            "--wait",
            "300s",
            "--name",
            "many",
        ])
        .args(["--pairs", "k:4", "--parallel", "8", "-t", "40ms", "-r", "2", "--retest", "0", "-q", "--yes"])
        .current_dir(home.path())
        .env("XDG_DATA_HOME", home.path())
        .stdin(Stdio::null())
        .spawn()
        .expect("the program starts");
    let begun = Instant::now();
    let token = Token::read(&file).expect("the token").0;
    for number in 0..agents {
        let (to, token) = (place.clone(), token.clone());
        let name = format!("agent{number}");
        let agent = std::thread::Builder::new().stack_size(256 << 10).spawn(move || {
            let caller = Caller { to, token, name, rank: None, address: None };
            if let Err(problem) = caller.join(agent) {
                eprintln!("{}: {problem}", caller.name);
            }
        });
        agent.expect("a thread");
    }
    let record = home.path().join("msgpath/many/mesh.json");
    let (mut came, mut most) = (None, Used::default());
    let status = loop {
        if came.is_none() && record.exists() {
            came = Some(begun.elapsed());
            println!("{agents} agents had come after {:.1} s", begun.elapsed().as_secs_f64());
        }
        most = most.most(Used::of(mesh.id()));
        match mesh.try_wait().expect("a child of this process") {
            Some(status) => break Some(status),
            None if begun.elapsed() > LONGEST => {
                let _ = (mesh.kill(), mesh.wait());
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    let lasted = begun.elapsed() - came.unwrap_or_default();
    let Some(status) = status else { return println!("given up after {} s", LONGEST.as_secs()) };
    let (pairs, failed) = recorded(record.parent().expect("a folder"));
    println!("{pairs} pairs measured and {failed} tries failed in {:.1} s, {status}", lasted.as_secs_f64());
    println!("{:.1} ms of each pair's turn, eight at a time", 8e3 * lasted.as_secs_f64() / f64::from(pairs.max(1)));
    println!("the coordinator: {} MiB, {} threads, {:.1} s of CPU", most.memory >> 20, most.threads, most.cpu);
}

/// An agent whose pipe is this connection.
fn agent(mut stream: TcpStream) -> io::Result<()> {
    let Some((Role::OnHost(known), _)) = wire::read::<Role>(&mut stream)? else { return Ok(()) };
    let found = Found { address: known.address.map(|address| (address, FoundBy::Typed)), own: Vec::new() };
    let mut to = stream.try_clone()?;
    wire::write(&mut to, &found, &[])?;
    let peer = Peer { host: Some(LOOPBACK), address: Some(LOOPBACK), reach: Reach::Mesh };
    session(&mut stream, &mut to, None, peer, &Terms::default(), &Lease::new(Duration::from_secs(10)))
}

/// Pairs with a result, and tries that failed.
fn recorded(folder: &Path) -> (u32, u32) {
    let (mut pairs, mut failed) = (0, 0);
    let read = msgpath_record::read_mesh(folder, |block| match block {
        msgpath_record::PairBlock::Pair(_) => pairs += 1,
        msgpath_record::PairBlock::Failed(_) => failed += 1,
    });
    read.expect("the mesh can be read");
    (pairs, failed)
}

/// What a process uses.
#[derive(Clone, Copy, Default)]
struct Used {
    memory: u64,
    threads: u64,
    cpu: f64,
}

impl Used {
    fn of(pid: u32) -> Self {
        let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let of = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
        };
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let ticks = stat.rsplit(')').next().map_or(0, |rest| {
            rest.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<u64>().ok()).sum()
        });
        Self { memory: of("VmRSS:") << 10, threads: of("Threads:"), cpu: ticks as f64 / 100.0 }
    }

    fn most(self, other: Self) -> Self {
        Self {
            memory: self.memory.max(other.memory),
            threads: self.threads.max(other.threads),
            cpu: self.cpu.max(other.cpu),
        }
    }
}
