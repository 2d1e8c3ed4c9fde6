//! Who may come to `serve`: whoever has its token, and nobody else.

use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use msgpath_agent::greeting::GREETING;
use msgpath_agent::wire::{self, Admits, Nonce, Opening, Proves, ToEnd};

use crate::command::{Home, Running, free_port};

const SHORT: &str = "-c 100 -r 5 -w 0 -o what-ifs=no --no-save -q";

/// A `serve` that asks for the token in `file`, and its port.
fn serve(home: &Home, file: &str) -> (Running, u16) {
    let port = free_port();
    let running = home.start(&format!("serve 127.0.0.1:{port} --token-file {file}"));
    running.until_it_says("serving at");
    (running, port)
}

#[test]
fn who_has_the_token_measures_and_nobody_else_does() {
    let home = Home::new();
    let (running, port) = serve(&home, "token");
    running.until_it_says("made a token: copy token to the near machine");
    let secret = std::fs::read_to_string(home.path().join("token")).unwrap();
    assert_eq!(std::fs::metadata(home.path().join("token")).unwrap().permissions().mode() & 0o777, 0o600);
    home.run(&format!("echo 127.0.0.1:{port} --token-file token {SHORT}")).ends_with(0);
    let mut by_environment = home.command(&["echo", &format!("127.0.0.1:{port}")]);
    by_environment.args(SHORT.split(' ')).env("MSGPATH_TOKEN_FILE", home.path().join("token"));
    Running::new(by_environment).finish(std::time::Duration::from_secs(60)).ends_with(0);
    home.run(&format!("doctor 127.0.0.1:{port} --token-file token")).ends_with(0);

    home.run(&format!("echo 127.0.0.1:{port} {SHORT}")).ends_with(3).says(&[
        "error[E73]: the far end asks for a token",
        "--token-file",
        "MSGPATH_TOKEN_FILE",
    ]);
    std::fs::write(home.path().join("other"), "0123456789abcdef0123").unwrap();
    let other = home.run(&format!("echo 127.0.0.1:{port} --token-file other {SHORT}")).ends_with(3);
    let other = other.says(&["error[E73]: the far end has another token"]);
    std::fs::write(home.path().join("short"), "secret").unwrap();
    home.run(&format!("echo 127.0.0.1:{port} --token-file short {SHORT}")).ends_with(3).says(&["16 to 4096 bytes"]);
    home.run(&format!("echo 127.0.0.1:{port} --token-file none {SHORT}")).ends_with(3).says(&["none has no token"]);
    running.until_it_says("it has not the token");
    running.signal("INT");
    let text = running.finish(std::time::Duration::from_secs(60)).ends_with(0);
    assert!(!text.err.contains(secret.trim()) && !other.err.contains("0123456789"), "a token was printed");
}

#[test]
fn a_run_that_was_cut_short_goes_on_with_its_token() {
    let home = Home::new();
    let (_serve, port) = serve(&home, "token");
    // A round takes 60 ms at least, so that the run can be met in its middle.
    let line = format!(
        "echo 127.0.0.1:{port} --token-file token -c 400 -r 20 -w 0 -o service-time=3ms,what-ifs=no,extend=no --name long"
    );
    let mut running = home.start(&line);
    if !running.meets(&home.runs().join("long"), 1) {
        return eprintln!("skipped: the machine stood still until the run had ended");
    }
    running.signal("KILL");
    drop(running);
    home.run("resume long -qq").ends_with(0);
    let run = std::fs::read_to_string(home.runs().join("long/run.json")).unwrap();
    assert!(!run.contains(std::fs::read_to_string(home.path().join("token")).unwrap().trim()), "it is in the record");
}

#[test]
fn a_far_end_that_has_not_the_token_is_not_the_one_that_is_meant() {
    let home = Home::new();
    std::fs::write(home.path().join("token"), "0123456789abcdef").unwrap();
    let port = free_port();
    let open = home.start(&format!("serve 127.0.0.1:{port}"));
    open.until_it_says("serving at");
    let asked = home.run(&format!("echo 127.0.0.1:{port} --token-file token {SHORT}")).ends_with(3);
    asked.says(&["error[E73]: the far end does not ask for a token"]);
    // One that asks, takes any answer, and cannot prove anything itself.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let impostor = std::thread::spawn(move || {
        let (mut near, _) = listener.accept().unwrap();
        near.write_all(&GREETING).unwrap();
        let challenge = Opening::Challenge { nonce: Nonce::new().unwrap(), addresses: true };
        wire::write(&mut near, &challenge, &[]).unwrap();
        let (Proves { proof, .. }, _) = wire::read::<Proves>(&mut near).unwrap().expect("a proof");
        wire::write(&mut near, &Admits::Proven { proof }, &[]).unwrap();
        assert!(matches!(wire::read::<ToEnd>(&mut near), Ok(None)), "it goes on");
    });
    let fooled = home.run(&format!("echo 127.0.0.1:{port} --token-file token {SHORT}")).ends_with(3);
    fooled.says(&["error[E73]: the far end cannot prove that it has the token"]);
    impostor.join().unwrap();
}

/// Passes on what comes to it, as a forwarded port does; where it listens.
fn forwarded(port: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for near in listener.incoming() {
            let (near, far) = (near.unwrap(), std::net::TcpStream::connect(("127.0.0.1", port)).unwrap());
            for (mut from, mut to) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)] {
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
    own
}

#[test]
fn forwarded_port_is_named_and_taken_where_it_is_meant() {
    let home = Home::new();
    let (running, port) = serve(&home, "token");
    let refused = home.run(&format!("echo 127.0.0.1:{} --token-file token {SHORT}", forwarded(port))).ends_with(3);
    refused.says(&["error[E75]", "NAT, a forwarded port or a tunnel", "msgpath serve --behind-nat"]);
    running.until_it_says("--behind-nat");
    let (_translated, port) = serve(&home, "token --behind-nat");
    home.run(&format!("echo 127.0.0.1:{} --token-file token {SHORT}", forwarded(port))).ends_with(0);
    home.run("serve --behind-nat").ends_with(2).says(&["--token-file"]);
}

#[test]
fn beyond_loopback_serve_says_what_to_type() {
    let home = Home::new();
    for address in ["0.0.0.0", "-B 0.0.0.0", "[::]"] {
        let output = home.run(&format!("serve {address}")).ends_with(2);
        output.says(&["error[E74]", "is not loopback", "--token-file FILE, or --insecure to let everybody in"]);
    }
    home.run("serve --insecure --token-file x").ends_with(2);
    home.run("serve --rpc --token-file x").ends_with(2).says(&["--token-file has no meaning with --rpc"]);
    home.run("serve --compat echo --token-file x").ends_with(2).says(&["--token-file has no meaning with --compat"]);
    for open in ["--rpc 0.0.0.0", "--rpc -B ::", "-B 0.0.0.0 --compat echo"] {
        let output = home.run(&format!("serve {open}")).ends_with(2);
        output.says(&["error[E74]", "is not loopback, and whoever reaches it can", "--insecure to let everybody in"]);
    }
    let port = free_port();
    let running = home.start(&format!("serve -p {port} -B 0.0.0.0 --compat echo --insecure"));
    running.until_it_says("nobody is asked who they are");
    home.run("echo --token-file x").ends_with(2).says(&["none was named"]);
    home.run("echo n2 --launch ssh --token-file x").ends_with(2);
    // A file that others can read is said aloud.
    std::fs::write(home.path().join("open"), "0123456789abcdef").unwrap();
    std::fs::set_permissions(home.path().join("open"), PermissionsExt::from_mode(0o644)).unwrap();
    let (running, _) = serve(&home, "open");
    running.until_it_says("chmod 600 open");
}
