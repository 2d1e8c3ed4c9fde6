//! What stands under the names of a program's files without being a file: FIFOs in a record, links where results go, and other users
//! who listen under a name.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use msgpath_agent::greeting::GREETING;
use msgpath_calls::record::RpcRow;
use msgpath_mesh::record::MESH_FILE;
use msgpath_record::RunLog;
use msgpath_record::{EVENTS_FILE, HEADER_FILE, MESSAGES_FILE, ROUNDS_FILE, SUMMARY_FILE};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::thread::set_thread_res_uid;

use crate::command::{Home, Output};

/// Reading a record takes a fraction of it; a reader that waits for the writer of a FIFO never ends.
const LONG: Duration = Duration::from_secs(60);
/// A user that is not root.
const OTHER: u32 = 65_534;

/// A home with a recorded run of this name.
fn recorded(name: &str) -> Home {
    let home = Home::new();
    home.run(&format!("echo -x pipe:write -l 64 -c 50 -r 5 -w 0 -o what-ifs=no,message-log=100 --name {name}"))
        .ends_with(0);
    home
}

fn fifo(path: &Path) {
    let _ = std::fs::remove_file(path);
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// A copy of the run, in which one file is a FIFO.
fn with_fifo(home: &Home, run: &str, file: &str) -> String {
    let name = format!("odd-{}", file.replace('.', "-"));
    let (from, to) = (home.runs().join(run), home.runs().join(&name));
    std::fs::create_dir(&to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    fifo(&to.join(file));
    name
}

#[track_caller]
fn ends(home: &Home, line: &str) -> Output {
    home.start(line).finish(LONG)
}

#[test]
fn a_fifo_among_the_files_of_a_run_ends_every_reader_with_its_name() {
    let home = recorded("whole");
    for file in [HEADER_FILE, ROUNDS_FILE, MESSAGES_FILE, EVENTS_FILE, RpcRow::FILE] {
        let run = with_fifo(&home, "whole", file);
        for line in ["show {}", "report {}", "diff whole {}", "diff {} whole", "export {}", "verify {}", "resume {}"] {
            let line = line.replace("{}", &run);
            let output = ends(&home, &line);
            assert!(matches!(output.code, Some(1..=4)), "{line}: {output:?}");
            output.says(&["error[E13]", file, "it is a FIFO, not a regular file"]);
        }
    }
    let run = with_fifo(&home, "whole", SUMMARY_FILE);
    ends(&home, &format!("verify {run}")).ends_with(3).says(&["error[E13]", SUMMARY_FILE, "it is a FIFO"]);
    let run = with_fifo(&home, "whole", "tools.jsonl");
    ends(&home, &format!("show {run}")).ends_with(3).says(&["error[E13]", "tools.jsonl", "it is a FIFO"]);
    // Those two are read by one verb each; the list reads headers, and counts rounds.
    ends(&home, "runs").ends_with(0).shows(&["whole"]).says(&["not listed", HEADER_FILE, ROUNDS_FILE, "it is a FIFO"]);
}

#[test]
fn a_fifo_as_the_header_of_any_record_ends_every_reader_with_its_name() {
    let home = recorded("whole");
    let headers = [MESH_FILE, "watch.json", "tracers.json"];
    for file in headers {
        let folder = home.runs().join(format!("odd-{}", file.replace('.', "-")));
        std::fs::create_dir(&folder).unwrap();
        fifo(&folder.join(file));
        for verb in ["show", "report"] {
            let output = ends(&home, &format!("{verb} {}", folder.display()));
            output.ends_with(3).says(&["error[E13]", file, "it is a FIFO"]);
        }
    }
    ends(&home, "runs").ends_with(0).shows(&["whole"]).says(&headers);
    ends(&home, "show @last").ends_with(0).shows(&["pipe:write"]);
}

/// A file of the user that no command may change.
struct Victim(PathBuf);

impl Victim {
    fn new(home: &Home) -> Self {
        let file = home.path().join("victim");
        std::fs::write(&file, "mine").unwrap();
        Self(file)
    }

    #[track_caller]
    fn is_unchanged(&self) {
        assert_eq!(std::fs::read_to_string(&self.0).unwrap(), "mine");
    }
}

#[test]
fn a_link_where_the_program_names_a_result_is_replaced_and_not_followed() {
    let home = recorded("whole");
    let victim = Victim::new(&home);
    let folder = home.path().join("into");
    std::fs::create_dir(&folder).unwrap();
    let report = home.runs().join("whole/report.html");
    let results = [
        ("report whole", report.clone()),
        ("report whole --svg into", folder.join("latency-ecdf.svg")),
        ("man into", folder.join("msgpath.1")),
    ];
    // Which figures a run has is not what this is about: the first of them.
    home.run("report whole --svg first").ends_with(0);
    let figure = std::fs::read_dir(home.path().join("first")).unwrap().flatten().next().unwrap().file_name();
    for (line, file) in results {
        let file = if file.extension().is_some_and(|end| end == "svg") { folder.join(&figure) } else { file };
        let _ = std::fs::remove_file(&file);
        symlink(&victim.0, &file).unwrap();
        home.run(line).ends_with(0);
        victim.is_unchanged();
        assert!(std::fs::symlink_metadata(&file).unwrap().is_file(), "{line}: {}", file.display());
    }
    // A hard link is another name of the victim.
    std::fs::remove_file(&report).unwrap();
    std::fs::hard_link(&victim.0, &report).unwrap();
    home.run("report whole").ends_with(0);
    victim.is_unchanged();
}

#[test]
fn a_link_that_others_could_put_under_a_typed_name_is_replaced_and_a_device_is_written_to() {
    let home = recorded("whole");
    let victim = Victim::new(&home);
    let shared = home.path().join("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o777)).unwrap();
    for (line, name) in [
        ("report whole -o shared/page.html", "page.html"),
        ("export whole -o shared/rounds.csv", "rounds.csv"),
        ("echo -x pipe:write -l 64 -c 50 -r 2 -w 0 --no-save --open-metrics shared/out.prom", "out.prom"),
    ] {
        let _ = std::fs::remove_file(shared.join(name));
        symlink(&victim.0, shared.join(name)).unwrap();
        home.run(line).ends_with(0);
        victim.is_unchanged();
        assert!(std::fs::symlink_metadata(shared.join(name)).unwrap().is_file(), "{line}");
    }
    home.run("export whole -o /dev/null").ends_with(0);
    let printed = home.run("export whole -o /dev/stdout").ends_with(0);
    assert_eq!(printed.out, home.run("export whole").out);
    let names = std::fs::read_dir(&shared).unwrap().flatten().map(|entry| entry.file_name());
    assert_eq!(names.filter(|name| name.to_string_lossy().starts_with('.')).count(), 0, "no draft is left");
}

/// Listens at this address as [`OTHER`], greets whoever comes as `serve` does, and returns what each of them sent.
fn other_user_listens(address: SocketAddrUnix, visitors: usize) -> std::thread::JoinHandle<Vec<Vec<u8>>> {
    let fd = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    net::bind(&fd, &address).unwrap();
    let (ready, is_ready) = std::sync::mpsc::channel();
    let listens = move |fd: OwnedFd| {
        // Of this thread alone. Whose the socket is counts from when it listens.
        let user = rustix::process::Uid::from_raw(OTHER);
        set_thread_res_uid(user, user, user).unwrap();
        net::listen(&fd, 8).unwrap();
        ready.send(()).unwrap();
        let listener = UnixListener::from(fd);
        let mut heard = Vec::new();
        for _ in 0..visitors {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.write_all(&GREETING).and_then(|()| stream.shutdown(Shutdown::Write));
            let mut bytes = Vec::new();
            let _ = stream.read_to_end(&mut bytes);
            heard.push(bytes);
        }
        heard
    };
    let thread = std::thread::spawn(move || listens(fd));
    is_ready.recv().unwrap();
    thread
}

#[test]
fn another_user_who_listens_under_a_name_is_named_and_hears_nothing() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root can become another user");
    }
    let home = Home::new();
    let name = format!("other-{}", std::process::id());
    let schemes = ["shm", "pipe", "fifo", "mq"];
    let service = format!("msgpath-serve-{name}");
    let under_a_name = SocketAddrUnix::new_abstract_name(service.as_bytes()).unwrap();
    let path = home.path().join("socket");
    let listening = [
        (other_user_listens(under_a_name, schemes.len()), schemes.map(|scheme| format!("{scheme}:{name}")).to_vec()),
        (other_user_listens(SocketAddrUnix::new(&path).unwrap(), 1), vec![format!("unix:{}", path.display())]),
    ];
    for (listener, targets) in listening {
        for target in targets {
            let output = home.run(&format!("echo {target} -c 50 -r 2 -w 0 --no-save")).ends_with(3);
            output.says(&["error[E95]", &format!("user {OTHER} listens at {target}, not this user or root")]);
        }
        assert!(listener.join().unwrap().iter().all(Vec::is_empty), "something was sent");
    }
}
