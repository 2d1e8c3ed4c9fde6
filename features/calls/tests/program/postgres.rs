//! `msgpath rpc postgres://` against a real server of these tests, which runs as a user without privileges in a folder of its own.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::command::{Home, LIMIT, Output, Running, free_port, within};

/// The password of every user of it.
const SECRET: &str = "s3cret-of-anna";

/// A server with its folder.
struct Postgres {
    folder: tempfile::TempDir,
    port: u16,
    child: Child,
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // SIGINT: a fast shutdown, which ends its processes before it.
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}

/// A program of PostgreSQL, as somebody who is not root: it refuses to serve root.
fn program(name: &str, folder: &Path) -> Command {
    let mut command = Command::new(name);
    if rustix::process::geteuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

impl Postgres {
    /// `None`: PostgreSQL is not installed.
    fn start() -> Option<Self> {
        Self::serving(|_| Some(Vec::new()), "")
    }

    /// With settings that are made in its folder, and with rules before the others.
    fn serving(settings: impl FnOnce(&Path) -> Option<Vec<String>>, more: &str) -> Option<Self> {
        let folder = tempfile::Builder::new().prefix("msgpath-postgres").tempdir_in("/tmp").unwrap();
        let at = folder.path();
        std::fs::set_permissions(at, std::fs::Permissions::from_mode(0o777)).unwrap();
        std::fs::write(at.join("password"), SECRET).unwrap();
        let made =
            program("initdb", at).args(["-D", "data", "-U", "anna", "--no-sync", "-A", "trust"]).status().ok()?;
        assert!(made.success());
        let rules = more.to_owned()
            + "local all all trust\nhost all trusted 127.0.0.1/32 trust\nhost all plain 127.0.0.1/32 password\n\
                     host all digest 127.0.0.1/32 md5\nhost all anna 127.0.0.1/32 scram-sha-256\n";
        let script = format!(
            "printf '%s' \"$0\" > data/pg_hba.conf; postgres --single -D data postgres <<'END'\n\
             alter role anna password '{SECRET}'\ncreate role trusted login\ncreate table own(n int)\ngrant all on own to public\n\
             create role certified login\ncreate role plain login password '{SECRET}'\n\
             set password_encryption='md5'; create role digest login password '{SECRET}'\nEND\n"
        );
        assert!(program("sh", at).args(["-c", &script, &rules]).status().unwrap().success());
        let settings = settings(at)?;
        let port = free_port();
        let socket = at.display().to_string();
        let child = program("postgres", at)
            .args([
                "-D",
                "data",
                "-k",
                &socket,
                "-p",
                &port.to_string(),
                "-c",
                "listen_addresses=127.0.0.1",
                "-c",
                "fsync=off",
            ])
            .args(settings)
            .spawn()
            .ok()?;
        let server = Self { folder, port, child };
        let ready = || {
            let status = std::fs::read_to_string(server.folder.path().join("data/postmaster.pid")).unwrap_or_default();
            status.lines().last().is_some_and(|line| line.trim() == "ready")
        };
        assert!(within(LIMIT, ready), "PostgreSQL does not become ready");
        Some(server)
    }

    fn password_file(&self) -> PathBuf {
        self.folder.path().join("password")
    }

    /// `rpc` of a user of it.
    fn rpc(&self, home: &Home, user: &str, words: &[&str]) -> Output {
        let target = format!("postgres://{user}@127.0.0.1:{}/postgres", self.port);
        home.msgpath(&[&["rpc", target.as_str()], words].concat())
    }
}

/// A server, or the reason why there is none.
macro_rules! server {
    () => {
        match Postgres::start() {
            Some(server) => server,
            None => return eprintln!("skipped: no PostgreSQL (initdb)"),
        }
    };
}

#[test]
fn statements_are_called_by_every_kind_of_load() {
    let (server, home) = (server!(), Home::new());
    let run = |words: &[&str]| server.rpc(&home, "trusted", words).ends_with(0);
    run(&["-k", "200", "SELECT 1"]).shows(&["SELECT 1: 200 calls answered, 0 failed", "no network was measured"]);
    let json = run(&["-k", "200", "SELECT 1", "-P", "2", "--inflight", "8", "--json", "--no-save"]).json();
    assert_eq!(json["cases"][0]["delivery"]["received"], 200);
    let json = run(&["-k", "100", "SELECT 1", "--rate", "2k", "-P", "2", "--json", "--no-save"]).json();
    assert_eq!(json["cases"][0]["delivery"]["received"], 100);
    // NULL, no row, an empty statement, and a notice in each reply are replies.
    let raise = "DO $$ BEGIN RAISE NOTICE 'hear'; END $$";
    let all = ["SELECT NULL", "--then", "SELECT 1 WHERE false", "--then", ";", "--then", raise];
    run(&all).shows(&["SELECT NULL: 1 call answered, 0 failed", "SELECT 1 WHERE false: 1 call answered"]);
    // Keys and values are parameters, which the server counts with.
    run(&["-k", "10", "SELECT $1::int + $2::int", "-key", "1", "+", "-value", "2"])
        .shows(&["10 calls answered, 0 failed"]);
    let folder = std::fs::read_dir(home.runs()).unwrap().next().unwrap().unwrap().path();
    let header = std::fs::read_to_string(folder.join("run.json")).unwrap();
    assert!(header.contains("\"postgres\"") && header.contains("PostgreSQL 1"), "{header}");
    home.run("verify @last").ends_with(0);
}

#[test]
fn errors_of_postgres_are_failures_with_their_sqlstate() {
    let (server, home) = (server!(), Home::new());
    // Every other row divides by zero.
    let output =
        server.rpc(&home, "trusted", &["-k", "100", "SELECT 1 / ($1::int % 2)", "-key", "10", "+"]).ends_with(1);
    output
        .says(&["E16", "50 of 100 calls"])
        .shows(&["50 calls failed: 22012: division by zero", "the calls that failed took"]);
    let json = home.run("show @last --json").ends_with(0).json();
    let kind = &json["rpc"]["kinds"][0];
    assert_eq!((&kind["failed"], &kind["failed_took"]["calls"]), (&50.into(), &50.into()));
    let none = server.rpc(&home, "trusted", &["SELECT 1 / 0", "--no-save"]).ends_with(4);
    none.says(&["22012: division by zero"]);
    // What the server does not take is said before the first call.
    server.rpc(&home, "trusted", &["SELEC 1"]).ends_with(3).says(&["E146", "SELEC 1", "42601"]);
    server.rpc(&home, "trusted", &["SELECT * FROM nowhere"]).ends_with(3).says(&[
        "E146",
        "42P01",
        "USER@HOST/DATABASE",
    ]);
    server.rpc(&home, "trusted", &["SELECT $1::int"]).ends_with(3).says(&["E146", "1 parameter", "-key gives $1"]);
    server.rpc(&home, "trusted", &["COPY own FROM STDIN"]).ends_with(4).says(&["E34", "COPY FROM STDIN"]);
    let gone = "SELECT pg_terminate_backend(pg_backend_pid())";
    server
        .rpc(&home, "anna", &[gone, "--password-file", &server.password_file().display().to_string()])
        .ends_with(4)
        .says(&["E35", "57P01"]);
}

#[test]
fn every_way_to_say_who_calls_hides_the_password() {
    let (server, home) = (server!(), Home::new());
    let file = server.password_file().display().to_string();
    let mut outputs = Vec::new();
    for user in ["plain", "digest", "anna"] {
        outputs.push(server.rpc(&home, user, &["-k", "20", "SELECT 1", "--password-file", &file]).ends_with(0));
        outputs.push(server.rpc(&home, user, &["SELECT 1"]).ends_with(3).says(&[
            "E65",
            "wants a password",
            "PGPASSWORD",
        ]));
    }
    let target = format!("postgres://anna:{SECRET}@127.0.0.1:{}/postgres", server.port);
    outputs.push(home.msgpath(&["rpc", &target, "SELECT 1"]).ends_with(0).says(&["--password-file hides it"]));
    let target = format!("postgres://anna@127.0.0.1:{}/postgres?sslmode=prefer", server.port);
    let mut command = home.command(&["rpc", &target, "SELECT 1"]);
    command.env("PGPASSWORD", SECRET);
    outputs.push(Running::new(command).finish(LIMIT).ends_with(0));
    let wrong = home.temporary().join("wrong");
    std::fs::write(&wrong, "n0t-it").unwrap();
    let wrong = server.rpc(&home, "anna", &["SELECT 1", "--password-file", &wrong.display().to_string()]).ends_with(3);
    outputs.push(wrong.says(&["E65", "28P01", "pg_hba.conf"]));
    for secret in [SECRET, "n0t-it"] {
        let kept = Command::new("grep").args(["-rlF", secret, "--exclude=wrong"]).arg(home.path()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&kept.stdout), "");
        assert!(!outputs.iter().any(|output| (output.out.clone() + &output.err).contains(secret)));
    }
    // A user without a line in pg_hba.conf, and a database that is not there.
    let target = format!("postgres://anna@127.0.0.1:{}/nowhere", server.port);
    home.msgpath(&["rpc", &target, "SELECT 1", "--password-file", &file]).ends_with(3).says(&["3D000", "psql -l"]);
    // The socket of a folder.
    let folder = server.folder.path().display();
    let target = format!("postgres://trusted@/postgres?host={folder}&port={}", server.port);
    home.msgpath(&["rpc", &target, "-k", "20", "SELECT 1", "--no-save"]).ends_with(0).shows(&["Unix socket"]);
}

#[test]
fn what_rpc_does_not_speak_to_postgres_is_refused_by_name() {
    let home = Home::new();
    let rpc = |words: &[&str]| home.msgpath(&[&["rpc"], words].concat()).ends_with(2);
    #[cfg(not(feature = "tls"))]
    rpc(&["postgres://a@h/db?sslmode=require", "SELECT 1"]).says(&["E136", "an sslmode that requires TLS", "no TLS"]);
    rpc(&["postgres://a@h/db?sslrootcert=/x", "SELECT 1"]).says(&["sslrootcert", "--cacert FILE"]);
    rpc(&["postgres://a@h/db?sslmode=maybe", "SELECT 1"]).says(&["postgres://USER@HOST:PORT/DATABASE"]);
    rpc(&["postgres://a@h/db", "SELECT 1", "--verify"]).says(&["--verify"]);
    rpc(&["postgres://a@h/db", "SELECT 1", "--no-keepalive"]).says(&["--no-keepalive is for HTTP"]);
    let odd = rpc(&["postgres://a:s3cret@h/db?x=1", "SELECT 1"]).says(&["postgres://USER@HOST:PORT/DATABASE"]);
    assert!(!odd.err.contains("s3cret"), "{}", odd.err);
}

#[test]
fn a_server_that_lies_ends_the_run_with_its_reason() {
    for (answer, code) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "E65"),
        (b"R\x7f\xff\xff\xff", "E65"),
        (b"R\0\0\0\x08\0\0\0\x07", "E65"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer);
            let _ = stream.read(&mut [0; 4096]);
        });
        let target = format!("postgres://a@127.0.0.1:{port}/db");
        Home::new().msgpath(&["rpc", &target, "SELECT 1"]).ends_with(3).says(&[code]);
        serving.join().unwrap();
    }
}

#[cfg(feature = "tls")]
mod with_tls {
    use super::*;

    fn openssl(at: &Path, line: &str) -> Option<()> {
        let made = program("openssl", at).args(line.split(' ')).status().ok()?;
        assert!(made.success(), "openssl {line}");
        Some(())
    }

    /// An authority, a certificate for localhost and one for the user `certified`; the settings of a server that has them. `None`:
    /// there is no openssl.
    fn certificates(at: &Path) -> Option<Vec<String>> {
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
        let signed = "-CA ca.pem -CAkey cakey.pem -CAcreateserial -days 2 -extfile names";
        let names = at.join("names");
        std::fs::write(&names, "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n").unwrap();
        openssl(at, &format!("req -x509 {key} -days 2 -keyout cakey.pem -out ca.pem -subj /CN=authority"))?;
        for (name, subject) in [("server", "localhost"), ("client", "certified")] {
            openssl(at, &format!("req {key} -keyout {name}key.pem -out request.pem -subj /CN={subject}"))?;
            openssl(at, &format!("x509 -req -in request.pem {signed} -out {name}.pem"))?;
        }
        let file = |name: &str| at.join(name).display().to_string();
        let settings = [
            "ssl=on".to_owned(),
            format!("ssl_cert_file={}", file("server.pem")),
            format!("ssl_key_file={}", file("serverkey.pem")),
            format!("ssl_ca_file={}", file("ca.pem")),
        ];
        Some(settings.into_iter().flat_map(|setting| ["-c".to_owned(), setting]).collect())
    }

    #[test]
    fn sslmode_says_whether_tls_is_spoken_and_what_is_checked() {
        let Some(server) = Postgres::serving(certificates, "hostssl all certified 127.0.0.1/32 cert\n") else {
            return eprintln!("skipped: no PostgreSQL (initdb), or no openssl");
        };
        let home = Home::new();
        let file = |name: &str| server.folder.path().join(name).display().to_string();
        let rpc = |host: &str, user: &str, mode: &str, more: &[&str]| {
            let target = format!("postgres://{user}@{host}:{}/postgres?sslmode={mode}", server.port);
            home.msgpath(&[&["rpc", target.as_str(), "-k", "50", "SELECT 1"], more].concat())
        };
        let ca = file("ca.pem");
        let ca = ["--cacert", ca.as_str()];
        let answered = "SELECT 1: 50 calls answered, 0 failed";
        rpc("127.0.0.1", "trusted", "require", &[]).ends_with(0).shows(&[answered, "TLS 1.3", "W184"]);
        let target = home.run("show @last --json").ends_with(0).json()["target"].as_str().unwrap().to_owned();
        assert!(target.ends_with("/postgres?sslmode=require"), "{target}");
        rpc("localhost", "trusted", "verify-full", &ca).ends_with(0).shows(&[answered, "TLS 1.3"]);
        rpc("127.0.0.1", "trusted", "verify-ca", &ca).ends_with(0).shows(&[answered]);
        rpc("127.0.0.1", "trusted", "verify-full", &ca).ends_with(3).says(&["E137", "is for another name"]);
        // A file of authorities is there to be used; the machine's trust none of ours.
        for mode in ["verify-ca", "verify-full"] {
            rpc("localhost", "trusted", mode, &[]).ends_with(3).says(&["E137", "signed by none"]);
        }
        let own = [file("client.pem"), file("clientkey.pem")];
        let own = ["--cert", own[0].as_str(), "--cert-key", own[1].as_str()];
        rpc("127.0.0.1", "certified", "require", &own).ends_with(0).shows(&[answered]);
        rpc("127.0.0.1", "certified", "require", &[]).ends_with(3).says(&["E65", "certificate"]);
        rpc("127.0.0.1", "anna", "require", &["--password-file", &server.password_file().display().to_string()])
            .ends_with(0)
            .shows(&[answered]);
        let plain = rpc("127.0.0.1", "trusted", "disable", &[]).ends_with(0).shows(&[answered]);
        assert!(!plain.out.contains("TLS 1.3"), "{}", plain.out);
    }

    #[test]
    fn server_that_speaks_no_tls_is_named() {
        for (answer, said) in [
            (&b"N"[..], "it speaks none"),
            (b"HTTP/1.1 400 Bad Request\r\n\r\n", "what it answers is not PostgreSQL"),
            (b"", "it closed the connection"),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            let serving = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut asked = [0; 8];
                stream.read_exact(&mut asked).unwrap();
                assert_eq!(asked, [0, 0, 0, 8, 4, 210, 22, 47], "SSLRequest");
                let _ = stream.write_all(answer);
            });
            let home = Home::new();
            let mut command = home.command(&["rpc", &format!("postgres://a@127.0.0.1:{port}/db"), "SELECT 1"]);
            command.env("PGSSLMODE", "require");
            Running::new(command).finish(LIMIT).ends_with(3).says(&["E137", said]);
            serving.join().unwrap();
        }
    }
}
