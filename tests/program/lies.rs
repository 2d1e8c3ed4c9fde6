//! A far end that lies: its impossible figures end the run, and nothing of them is printed as a result.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use msgpath_agent::greeting::{GREETING, service_name};
use msgpath_agent::wire::{self, Frame, FromEnd, Opening};
use msgpath_core::doctor::CheckState;
use msgpath_core::schema::{EndReport, Granted, KernelCounts, ThreadRecord};
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::command::{Home, Output, Running, free_port, harmless};

type Lie = fn(&mut EndReport, &mut [ThreadRecord]);

/// Stands between a near end and a real `serve`, and changes what `serve` says.
struct Liar {
    address: SocketAddr,
    talk: JoinHandle<()>,
}

impl Liar {
    fn new(serve: SocketAddr, lie: impl Fn(&mut FromEnd) + Send + 'static) -> Self {
        Self::over_tcp(serve, 1, lie)
    }

    /// The same for so many connections, one after the other.
    fn over_tcp<T: Frame>(serve: SocketAddr, connections: usize, lie: impl Fn(&mut T) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let accept = move || {
            let (near, _) = listener.accept().unwrap();
            near.set_nodelay(true).unwrap();
            // Both kinds of sockets are read, written and shut down alike.
            UnixStream::from(OwnedFd::from(near))
        };
        Self { address, talk: std::thread::spawn(move || talk(accept, serve, connections, lie)) }
    }

    /// The same where a `serve` under this name would listen, for one connection.
    fn under_name<T: Frame>(serve: SocketAddr, name: &str, lie: impl Fn(&mut T) + Send + 'static) -> JoinHandle<()> {
        let address = std::os::unix::net::SocketAddr::from_abstract_name(service_name(name)).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        std::thread::spawn(move || talk(|| listener.accept().unwrap().0, serve, 1, lie))
    }
}

fn talk<T: Frame>(accept: impl Fn() -> UnixStream, serve: SocketAddr, connections: usize, lie: impl Fn(&mut T)) {
    for _ in 0..connections {
        let mut near = accept();
        // Who asks who answers waits for a moment only, and may have gone.
        let _ = near.write_all(&GREETING);
        let mut far = TcpStream::connect(serve).unwrap();
        far.set_nodelay(true).unwrap();
        near.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        far.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        far.read_exact(&mut [0; GREETING.len()]).unwrap();
        let (opening, _) = wire::read::<Opening>(&mut far).unwrap().unwrap();
        let _ = wire::write(&mut near, &opening, &[]);
        let (mut from_near, mut to_far) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        let orders = std::thread::spawn(move || {
            let _ = std::io::copy(&mut from_near, &mut to_far);
            let _ = to_far.shutdown(std::net::Shutdown::Write);
        });
        answers(near, far, &lie);
        orders.join().unwrap();
    }
}

/// A frame of which nothing is known but that it is JSON: what a far end of another author can say.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Raw(Value);

impl Frame for Raw {
    const MAX_JSON: usize = FromEnd::MAX_JSON;
    const MAX_BYTES: usize = <FromEnd as Frame>::MAX_BYTES;
}

/// What the far end says, until one of the two has gone.
fn answers<T: Frame>(mut near: UnixStream, mut far: TcpStream, lie: impl Fn(&mut T)) {
    while let Ok(Some((mut message, bytes))) = wire::read::<T>(&mut far) {
        lie(&mut message);
        if wire::write(&mut near, &message, &bytes).is_err() {
            break;
        }
    }
    let _ = near.shutdown(std::net::Shutdown::Both);
}

fn serve(home: &Home) -> (Running, SocketAddr) {
    let free = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let running = home.start(&format!("serve {free}"));
    running.until_it_says("serving at");
    (running, free)
}

/// The lie about a round.
fn of_a_round(lie: Lie) -> impl Fn(&mut FromEnd) {
    move |message| {
        if let FromEnd::Done { report, threads, .. } = message {
            lie(report, threads);
        }
    }
}

#[test]
fn a_far_end_that_lies_ends_the_run_and_is_no_result() {
    let lies: [(&str, Lie); 9] = [
        ("nothing but the truth", |_, _| ()),
        ("messages received", |far, _| far.delivery.received = 699_050_492_000),
        ("1 messages received, and at least", |far, _| {
            (far.delivery.received, far.bytes_received) = (1, 4096);
        }),
        ("bytes received", |far, _| far.bytes_received = u64::MAX),
        ("ms within", |far, _| far.elapsed_ns = u64::MAX),
        ("faster than memory", |far, _| far.elapsed_ns = 1),
        ("of CPU time", |far, _| (far.user_ns, far.system_ns) = (u64::MAX, u64::MAX)),
        ("of waiting for a CPU", |far, _| far.run_delay_ns = Some(2_206_333_548_000_000_000)),
        ("threads listed of 1", |_, _| ()),
    ];
    let home = Home::new();
    let (_running, address) = serve(&home);
    for verb in ["echo", "stream"] {
        for (says, lie) in lies {
            let one_more = says.starts_with("threads listed");
            let liar = Liar::new(address, move |message| match message {
                FromEnd::Done { threads, .. } if one_more => threads.push(ThreadRecord::default()),
                message => of_a_round(lie)(message),
            });
            let output = home.run(&format!("{verb} {} -x tcp:send -l 4K -c 200 -r 3 -w 0 --no-save", liar.address));
            liar.talk.join().unwrap();
            if says == lies[0].0 {
                output.ends_with(0);
                continue;
            }
            let output = output.ends_with(4).says(&["error[E57]", "the far end reports what cannot be", says]);
            assert_eq!(output.out, "", "{verb}, {says}: no result");
        }
    }
}

#[test]
fn a_far_end_cannot_lie_about_one_of_its_threads() {
    let lies: [(&str, Lie); 4] = [
        ("nothing but the truth", |_, _| ()),
        ("1 messages sent, of which", |far, threads| {
            (far.delivery.sent, far.bytes_sent) = (1, 4096);
            threads.iter_mut().for_each(|thread| thread.report.delivery.sent = 0);
        }),
        ("messages received in all", |_, threads| threads[0].report.delivery.received = 0),
        ("involuntary switches in all", |_, threads| threads[1].report.involuntary_switches = 1 << 40),
    ];
    let home = Home::new();
    let (_running, address) = serve(&home);
    for (says, lie) in lies {
        let lie = of_a_round(lie);
        let liar = Liar::new(address, move |message| match message {
            // A probe of one thread lists none.
            FromEnd::Done { threads, .. } if threads.is_empty() => (),
            message => lie(message),
        });
        let line = format!("echo {} -x tcp:send -l 4K -P 2 -T 2 -c 100 -r 3 -w 0 --no-save", liar.address);
        let output = home.run(&line);
        liar.talk.join().unwrap();
        match says == lies[0].0 {
            true => drop(output.ends_with(0)),
            false => assert_eq!(output.ends_with(4).says(&["error[E57]", says]).out, "", "{says}: no result"),
        }
    }
}

/// A text that would clear the screen, name the window and turn the direction of writing.
const HOSTILE: &str = "evil\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}31m\u{202e}\nerror[E00]: forged";

#[test]
fn what_a_far_end_calls_itself_moves_no_cursor() {
    let home = Home::new();
    let (_running, address) = serve(&home);
    for (verb, paths) in [("echo", ""), ("stream", ""), ("compare", "-x tcp:send,tcp:write")] {
        let liar = Liar::new(address, |message| match message {
            FromEnd::Hello { environment, .. } => {
                let hostile = || HOSTILE.to_owned();
                (environment.host, environment.kernel, environment.cpu) = (hostile(), hostile(), hostile());
                environment.facts.values_mut().for_each(|value| *value = hostile());
                environment.facts.insert(hostile(), hostile());
            }
            FromEnd::Examined { checks } => {
                for check in checks {
                    (check.what, check.cure) = (HOSTILE.into(), HOSTILE.into());
                    check.state = if check.number == 9 { CheckState::Stop } else { check.state };
                }
            }
            FromEnd::Ready { granted, .. } => {
                let text = || HOSTILE.to_owned();
                granted.push(Granted { end: text(), option: text(), asked: text(), granted: text(), same: false });
            }
            _ => (),
        });
        let name = format!("hostile-{verb}");
        let to = liar.address;
        let measured = home.run(&format!("{verb} {paths} {to} -l 64 -c 200 -r 3 -w 0 -v --name {name}")).ends_with(0);
        liar.talk.join().unwrap();
        let shown = home.run(&format!("show {name} -v")).ends_with(0);
        for output in [measured, shown] {
            let escaped = "evil\\u{1b}[2J\\u{1b}]0;title\\u{7}\\u{9b}31m\\u{202e}\\nerror[E00]: forged";
            assert!(output.out.contains(escaped), "{verb}: the machines are listed:\n{}", output.out);
            assert!(harmless(&output.out) && harmless(&output.err), "{verb}:\n{:?}\n{:?}", output.out, output.err);
        }
    }
}

/// Two of five rounds are said to be disturbed. Its threads are more than the CPUs, so that nothing is judged by how long they waited,
/// whatever else runs here.
#[test]
fn a_run_goes_on_where_too_few_of_its_rounds_are_calm() {
    let home = Home::new();
    let (_running, address) = serve(&home);
    let rounds = |options: &str| {
        let seen = AtomicU32::new(0);
        let liar = Liar::new(address, move |message| {
            let FromEnd::Done { kernel: KernelCounts(counts), .. } = message else { return };
            if seen.fetch_add(1, Ordering::Relaxed) % 5 < 2 {
                counts.insert("cgroup.nr_throttled".into(), 1);
                counts.insert("cgroup.throttled_usec".into(), 1_000_000);
            }
        });
        let many = "-l 64 -P 32 -T 32 --cpu none -t 0.1s -w 0 -o what-ifs=no --no-save -v";
        let output = home.run(&format!("echo {} -x tcp:send {many} {options}", liar.address)).ends_with(0);
        liar.talk.join().unwrap();
        // Where its lines break depends on what else disturbed it.
        output.out.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let on = rounds("-o extend=yes");
    assert!(on.contains("; the run went on for"), "{on}");
    let planned = rounds("");
    assert!(planned.contains("calm rounds:") && !planned.contains("went on for"), "{planned}");
}

/// A far end whose checks call themselves those of the near end and bring a command that makes `file`, and what else may be
/// tried with them.
fn lie_of_commands(file: &Path, told: Arc<AtomicU32>, remedy: Value) -> impl Fn(&mut Raw) + Send + 'static {
    let run = format!(": > {}", file.display());
    move |Raw(message)| {
        let Some(checks) = message.pointer_mut("/examined/checks").and_then(Value::as_array_mut) else { return };
        for check in checks {
            check["end"] = json!("near");
            check["state"] = json!("stop");
            check["name"] = json!(HOSTILE);
            check["what"] = json!(HOSTILE);
            check["cure"] = json!(HOSTILE);
            check["commands"] = json!([{"run": run, "undo": run}]);
            check["evidence"] = json!({});
            check["remedies"] = if check["number"] == 3 { json!([remedy]) } else { json!([]) };
        }
        told.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs `doctor` of a machine that it cannot change: /sys and /proc/sys are read-only, and no program is found. `None`: it takes root.
fn apply(home: &Home, line: &str) -> Option<Output> {
    const READ_ONLY: &str = "for f in /sys /proc/sys; do mount --bind $f $f && mount -o remount,bind,ro $f || exit 9; done; \
                             test \"$1\" = true || PATH=/nonexistent exec \"$@\"";
    home.run_under(&["unshare", "-m", "sh", "-c", READ_ONLY, "sh"], line)
}

#[test]
fn commands_of_a_far_end_are_neither_printed_nor_run() {
    let home = Home::new();
    let (_running, address) = serve(&home);
    let (file, name) = (home.path().join("made-by-a-far-end"), format!("lies-{}", std::process::id()));
    let governor = || json!({"set": {"setting": {"governor": 8191}, "was": "powersave"}});
    for options in ["--fix", "--fix --json", "--strict --fix", "--fix --apply"] {
        for under_name in [false, true] {
            let told = Arc::new(AtomicU32::new(0));
            let lie = lie_of_commands(&file, Arc::clone(&told), governor());
            let (target, talk) = match under_name {
                true => (format!("shm:{name}"), Liar::under_name(address, &name, lie)),
                // It asks who answers first.
                false => {
                    let Liar { address, talk } = Liar::over_tcp(address, 2, lie);
                    (address.to_string(), talk)
                }
            };
            let line = format!("doctor {target} {options}");
            let output = if options.ends_with("--apply") { apply(&home, &line) } else { Some(home.run(&line)) };
            let Some(output) = output else {
                return eprintln!("skipped: --apply takes root and a mount namespace");
            };
            assert_eq!(told.load(Ordering::Relaxed), 1, "{line}: the lie was told:\n{}\n{}", output.out, output.err);
            talk.join().unwrap();
            assert!(!file.exists(), "{line}: the far end had a command run");
            for text in [&output.out, &output.err] {
                assert!(!text.contains("made-by-a-far-end") && harmless(text), "{line}:\n{text}");
            }
            // A remedy of the table is shown as one of the far end, and never applied here.
            let shown = output.out.contains("cpu8191");
            assert_eq!(shown, !options.ends_with("--apply"), "{line}:\n{}\n{}", output.out, output.err);
            assert!(
                options.contains("--json") || !shown || output.out.contains("# 3 cpu speed on the far end"),
                "{line}"
            );
            if options.contains("--json") {
                let checks = output.json()["checks"].as_array().unwrap().clone();
                assert_eq!(checks.iter().filter(|check| check["end"] == "far").count(), 20, "{line}");
            }
        }
    }
}

#[test]
fn parameters_of_a_remedy_that_are_no_words_end_the_session() {
    let home = Home::new();
    let (_running, address) = serve(&home);
    let file = home.path().join("made-by-a-far-end");
    let run = format!("x; : > {}", file.display());
    for remedy in [
        json!({"set": {"setting": {"governor": 0}, "was": run}}),
        json!({"set": {"setting": {"governor": 8192}, "was": "powersave"}}),
        json!({"coalescing": {"device": run, "was_us": 1}}),
        json!({"coalescing": {"device": "-K", "was_us": 1}}),
        // One of another check.
        json!("swap_off"),
    ] {
        let told = Arc::new(AtomicU32::new(0));
        let liar = Liar::over_tcp(address, 2, lie_of_commands(&file, Arc::clone(&told), remedy.clone()));
        let output = home.run(&format!("doctor {} --fix", liar.address)).ends_with(3).says(&["error[E03]"]);
        assert_eq!((told.load(Ordering::Relaxed), output.out.as_str()), (1, ""), "{remedy}");
        liar.talk.join().unwrap();
        assert!(output.err.len() < 1000 && harmless(&output.err) && !file.exists(), "{remedy}:\n{}", output.err);
    }
}

#[test]
fn far_end_that_fails_never_ends_the_program_with_success() {
    let home = Home::new();
    let (_running, address) = serve(&home);
    for (verb, instead_of, exit) in [
        ("echo", "hello", "ok"),
        ("echo", "examined", "ok"),
        ("echo", "offered", "ok"),
        ("echo", "ready", "ok"),
        ("echo", "done", "ok"),
        ("echo", "done", "strict"),
        ("echo", "done", "interrupted"),
        ("stream", "done", "ok"),
        ("compare", "done", "ok"),
    ] {
        let told = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&told);
        let liar = Liar::over_tcp(address, 1, move |Raw(message)| {
            if message.get(instead_of).is_some() {
                let (code, hint) = ("E17", "touch made-by-a-far-end");
                let what = format!("{HOSTILE}{}", "x".repeat(100_000));
                *message = json!({"failed": {"code": code, "what": what, "why": HOSTILE, "hint": hint, "exit": exit}});
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        let options = match verb {
            "compare" => "-x tcp:send,tcp:write",
            _ => "-x tcp:send",
        };
        let line = format!("{verb} {options} {} -l 64 -c 200 -r 3 -w 0 --no-save", liar.address);
        let output = home.run(&line);
        let line = format!("{verb}, {instead_of}, {exit}:\n{}\n{}", output.out, output.err);
        assert!(told.load(Ordering::Relaxed) > 0, "the lie was told: {line}");
        liar.talk.join().unwrap();
        assert!(matches!(output.code, Some(3 | 4)), "{:?}: {line}", output.code);
        assert!(output.err.len() < 4000 && harmless(&output.err), "{line}");
        assert!(!output.err.contains("try: touch"), "{line}");
    }
}

/// What a far end lays into a folder that it names, under both names of its FIFOs.
fn plant(folder: &Path, victim: &Path, plant: fn(&Path, &Path) -> std::io::Result<()>) {
    std::fs::create_dir_all(folder).unwrap();
    for name in ["up", "down"] {
        plant(victim, &folder.join(name)).unwrap();
    }
}

#[test]
fn files_that_a_far_end_names_are_not_written_to() {
    let home = Home::new();
    let (_running, address) = serve(&home);
    let (victim, temporary) = (home.path().join("victim"), home.temporary());
    std::fs::write(&victim, "mine").unwrap();
    // Names of the form that msgpath makes, locked as one that lives: otherwise they are swept before they are opened.
    let folder = |at: u32| format!("msgpath-tmp-{at:032x}");
    let outside = home.path().join("outside");
    plant(&outside, &victim, |victim, name| symlink(victim, name));
    plant(&temporary.join(folder(1)).join("0"), &victim, |victim, name| symlink(victim, name));
    plant(&temporary.join(folder(2)).join("0"), &victim, |victim, name| std::fs::hard_link(victim, name));
    std::fs::create_dir(temporary.join(folder(3))).unwrap();
    symlink(&outside, temporary.join(folder(3)).join("0")).unwrap();
    plant(&home.path().join("above").join("0"), &victim, |victim, name| symlink(victim, name));
    symlink(home.path().join("above"), temporary.join(folder(4))).unwrap();
    let locks = [1, 2, 3].map(|at| std::fs::File::open(temporary.join(folder(at))).unwrap());
    locks.iter().for_each(|folder| folder.lock().unwrap());
    let above = format!("../{}/outside", temporary.file_name().unwrap().display());
    let offered = [1, 2, 3, 4].map(|at| format!("{}/0", folder(at)));
    for (at, offered) in offered.into_iter().chain([outside.display().to_string(), above]).enumerate() {
        let name = format!("files-{}-{at}", std::process::id());
        let (lie, temporary, taken) = (offered.clone(), temporary.clone(), Mutex::new(Vec::new()));
        let talk = Liar::under_name(address, &name, move |message| {
            if let FromEnd::Offered { addresses, .. } = message {
                // The liar takes what was offered, so that the real far end is ready and the near end begins to send.
                let folders = addresses.iter().map(|address| temporary.join(address));
                let ends = folders
                    .flat_map(|folder| [(folder.join("down"), OFlags::RDONLY), (folder.join("up"), OFlags::WRONLY)]);
                let open = |(path, flags)| rustix::fs::open(path, flags | OFlags::NONBLOCK, Mode::empty()).unwrap();
                taken.lock().unwrap().extend(ends.map(open));
                addresses.fill(lie.clone());
            }
        });
        let output = home.run(&format!("echo fifo:{name} -l 64 -c 50 -r 2 -w 0 --no-save"));
        talk.join().unwrap();
        assert!(std::fs::read(&victim).unwrap() == b"mine", "{offered}: the victim was written to");
        assert!(matches!(output.code, Some(3 | 4)) && output.err.contains("fifo:write"), "{offered}: {output:?}");
    }
}
