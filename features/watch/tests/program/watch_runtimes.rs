//! `msgpath watch` on programs in Go, Java and Node: their own threads are no cause.

use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::printed::Value;

use crate::command::{Home, free_port, within};
use crate::watch::{CPU, Program, ask, connect, is_caused_by, sentence, server, skip_without_bpf, watch_what};

/// A program that is started with a port, and listens there. `None`: it cannot be had here.
fn started(program: &str, arguments: &[&str], folder: &Path, port: u16) -> Option<Program> {
    let mut command = Command::new(program);
    // Node makes a pipe that it is given non-blocking, and so that of all tests: libtest then gives up in the middle of its list.
    command.args(arguments).arg(port.to_string()).current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
    let server = Program(command.spawn().ok()?);
    within(Duration::from_secs(60), || TcpStream::connect(("127.0.0.1", port)).is_ok()).then_some(server)
}

/// Watches it while it is asked, every sixth time for what is planted.
fn watched(port: u16) -> Value {
    let ((), result) = watch_what(&format!("--port {port}"), || {
        let mut stream = connect(port);
        (0..60).for_each(|n| _ = ask(&mut stream, if n % 6 == 5 { b'p' } else { b'n' }));
    });
    result
}

const NODE: &str = "
require('net').createServer(peer => peer.on('data', what => {
    if (what[0] == 112) setTimeout(() => peer.write(what), 150); else peer.write(what);
})).listen(+process.argv[2], '127.0.0.1');
";

#[test]
fn a_timer_of_node_names_no_task() {
    skip_without_bpf!();
    let (home, port) = (Home::new(), free_port());
    std::fs::write(home.path().join("server.js"), NODE).expect("a file");
    let Some(_server) = started("node", &["server.js"], home.path(), port) else { return println!("skipped: no node") };
    let result = watched(port);
    is_caused_by(server(&result), "the server waiting until its time was over (a timeout), in epoll_wait");
}

const JAVA: &str = "
import java.net.*;
class Planted {
    public static void main(String[] arguments) throws Exception {
        var listener = new ServerSocket(Integer.parseInt(arguments[0]), 8, InetAddress.getLoopbackAddress());
        while (true) {
            var peer = listener.accept();
            new Thread(() -> {
                try {
                    peer.setTcpNoDelay(true);
                    for (int what; (what = peer.getInputStream().read()) >= 0; peer.getOutputStream().write(what))
                        if (what == 'p') Thread.sleep(150);
                } catch (Exception gone) {}
            }, \"planted\").start();
        }
    }
}
";

#[test]
fn a_sleep_in_java_names_no_task() {
    skip_without_bpf!();
    let (home, port) = (Home::new(), free_port());
    std::fs::write(home.path().join("Planted.java"), JAVA).expect("a file");
    let Some(_server) = started("java", &["Planted.java"], home.path(), port) else {
        return println!("skipped: no java");
    };
    let result = watched(port);
    is_caused_by(server(&result), "the server waiting until its time was over (a timeout), in futex");
}

const GO: &str = "
package main

import (
	\"net\"
	\"os\"
	\"sync\"
	\"time\"
)

func main() {
	listener, err := net.Listen(\"tcp\", \"127.0.0.1:\"+os.Args[1])
	if err != nil {
		panic(err)
	}
	var lock sync.Mutex
	for {
		peer, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			what := make([]byte, 1)
			for {
				if _, err := peer.Read(what); err != nil {
					return
				}
				if what[0] == 'p' {
					held := make(chan bool)
					go func() {
						lock.Lock()
						held <- true
						time.Sleep(150 * time.Millisecond)
						lock.Unlock()
					}()
					<-held
					lock.Lock()
					lock.Unlock()
				}
				peer.Write(what)
			}
		}()
	}
}
";

/// What a goroutine waits for is not what the thread does that it ran on.
#[test]
fn what_go_moves_between_threads_is_said_to_be_unknown() {
    skip_without_bpf!();
    let _alone = CPU.lock().unwrap_or_else(|failed| failed.into_inner());
    let (home, port) = (Home::new(), free_port());
    std::fs::write(home.path().join("planted.go"), GO).expect("a file");
    let build = ["build", "-o", "planted", "planted.go"];
    let built =
        Command::new("go").args(build).env("GOCACHE", home.path().join("cache")).current_dir(home.path()).status();
    if !built.is_ok_and(|status| status.success()) {
        return println!("skipped: no go that builds");
    }
    let Some(_server) = started("./planted", &[], home.path(), port) else { panic!("it does not start") };
    let result = watched(port);
    let first = sentence(server(&result), "X01");
    let text = first["text"].as_str().expect("a sentence");
    assert!(text.contains("in the scheduler of Go") && first["confidence"] == "can't tell", "{first:#}");
    assert!(!server(&result)["findings"].to_string().contains("woken by"), "{first:#}");
}
