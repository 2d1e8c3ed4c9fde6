//! `msgpath rpc` over TLS and HTTP/2, against nginx and Redis; and a build that has neither.

use crate::command::Home;

#[cfg(not(feature = "tls"))]
#[test]
fn a_build_without_tls_says_so_at_once() {
    let home = Home::new();
    for line in [
        "https://127.0.0.1:9/ GET",
        "rediss://127.0.0.1:9 PING",
        "rediss+unix:///run/x.sock PING",
        #[cfg(feature = "postgres")]
        "postgres://a@127.0.0.1:9/db?sslmode=require SELECT",
        "http://127.0.0.1:9/ GET --http2",
        "rediss://:s3cret@h GET",
    ] {
        let output = home.run(&format!("rpc {line}")).ends_with(2);
        let output = output.says(&["error[E136]", "this build has no TLS", "cargo build --release --features tls"]);
        assert!(!output.err.contains("s3cret"), "{}", output.err);
    }
    home.run("rpc http://127.0.0.1:9/ GET --cacert x").ends_with(2).says(&["--cacert is for TLS"]);
}

#[cfg(feature = "tls")]
mod with_tls {
    use std::net::TcpStream;
    use std::path::PathBuf;
    use std::process::{Child, Command, Stdio};

    use super::Home;
    use crate::command::{LIMIT, Output, free_port, within};

    /// What was printed has these parts, wherever its lines end.
    #[track_caller]
    fn reads(output: &Output, parts: &[&str]) {
        let text = output.out.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in parts {
            assert!(text.contains(part), "{part:?} is not in:\n{}", output.out);
        }
    }

    struct Server(Child);

    impl Drop for Server {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// What is typed after it is run in the folder of the test.
    fn openssl(home: &Home, line: &str) -> Option<()> {
        let mut command = Command::new("openssl");
        let output = command.args(line.split(' ')).current_dir(home.temporary()).output().ok()?;
        assert!(output.status.success(), "openssl {line}: {}", String::from_utf8_lossy(&output.stderr));
        Some(())
    }

    /// An authority, and a certificate of it for localhost and 127.0.0.1: ca.pem, cert.pem, key.pem. `None`: there is no openssl.
    fn certificates(home: &Home) -> Option<PathBuf> {
        let folder = home.temporary();
        let names = "subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n";
        std::fs::write(folder.join("names"), names).unwrap();
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
        openssl(home, &format!("req -x509 {key} -days 2 -keyout cakey.pem -out ca.pem -subj /CN=authority"))?;
        openssl(home, &format!("req {key} -keyout key.pem -out request.pem -subj /CN=localhost"))?;
        openssl(
            home,
            "x509 -req -in request.pem -CA ca.pem -CAkey cakey.pem -CAcreateserial -days 2 -extfile names -out cert.pem",
        )?;
        Some(folder.join("ca.pem"))
    }

    fn started(mut command: Command, port: u16) -> Option<Server> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        let server = Server(child);
        assert!(within(LIMIT, || TcpStream::connect(("127.0.0.1", port)).is_ok()), "it does not listen");
        Some(server)
    }

    /// A certificate of the authority for a client, and its key.
    fn of_client(home: &Home) -> [String; 2] {
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
        openssl(home, &format!("req {key} -keyout clientkey.pem -out request.pem -subj /CN=anna")).unwrap();
        openssl(
            home,
            "x509 -req -in request.pem -CA ca.pem -CAkey cakey.pem -CAcreateserial -days 2 -extfile names -out client.pem",
        )
        .unwrap();
        ["client.pem", "clientkey.pem"].map(|name| home.temporary().join(name).display().to_string())
    }

    /// nginx at these ports: TLS with HTTP/2 by ALPN, HTTP/2 in clear text, and one that closes behind seven calls. `None`: it is
    /// not installed.
    fn nginx(home: &Home, [tls, clear, few]: [u16; 3]) -> Option<Server> {
        let folder = home.temporary();
        let shown = folder.display();
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let temporary: String = temporary.iter().map(|name| format!("{name}_temp_path {shown}/{name};\n")).collect();
        let configuration = format!(
            "daemon off; master_process off; pid {shown}/pid; error_log {shown}/log; events {{}}\n\
             http {{ access_log off; keepalive_requests 1000000; {temporary}\n\
             server {{ listen 127.0.0.1:{clear} http2; location / {{ return 200 hello; }} }}\n\
             server {{ listen 127.0.0.1:{tls} ssl http2; ssl_certificate {shown}/cert.pem; ssl_certificate_key {shown}/key.pem;\n\
             ssl_protocols TLSv1.2 TLSv1.3;\n\
             http2_max_concurrent_streams 4; location / {{ return 200 hello; }}\n\
             location /none {{ return 404; }} }}\n\
             server {{ listen 127.0.0.1:{few} http2; keepalive_requests 7; location / {{ return 200 few; }} }} }}\n"
        );
        std::fs::write(folder.join("nginx.conf"), configuration).unwrap();
        let mut command = Command::new("nginx");
        command.arg("-p").arg(&folder).arg("-c").arg(folder.join("nginx.conf")).arg("-e").arg(folder.join("log"));
        started(command, tls)
    }

    /// Both, with the file of the authority; `None`: what is missing is said.
    fn served(home: &Home) -> Option<(Server, [u16; 3], String)> {
        let ports = [free_port(), free_port(), free_port()];
        let found = certificates(home).and_then(|ca| Some((nginx(home, ports)?, ports, ca.display().to_string())));
        if found.is_none() {
            eprintln!("skipped: no nginx, or no openssl");
        }
        found
    }

    #[test]
    fn https_calls_are_measured_and_the_handshake_is_described() {
        let home = Home::new();
        let Some((_nginx, [tls, ..], ca)) = served(&home) else { return };
        let output = home.run(&format!("rpc https://localhost:{tls}/ -k 200 GET --cacert {ca} -P 2")).ends_with(0);
        reads(&output, &["GET: 200 calls answered, 0 failed", "TLS 1.3, TLS_", "http/1.1", "2 handshakes: p50"]);
        let json = home.run("show @last --json").ends_with(0).json();
        let connections = &json["rpc"]["connections"];
        assert_eq!((&connections["full"], &connections["resumed"]), (&2.into(), &0.into()), "{connections:#}");
        assert!(connections["handshake"][0]["ns"].as_u64().is_some_and(|ns| ns > 0), "{connections:#}");
        assert_eq!(json["rpc"]["protocol"], "http");
        home.run("verify @last").ends_with(0);
        // By address, by schedule.
        let line = format!("rpc https://127.0.0.1:{tls}/none -k 50 GET --rate 1k --cacert {ca} --no-save");
        home.run(&line).ends_with(4).says(&["404"]);
    }

    #[test]
    fn connection_per_call_has_a_handshake_each() {
        let home = Home::new();
        let Some((_nginx, [tls, ..], ca)) = served(&home) else { return };
        let line = format!("rpc https://localhost:{tls}/ -k 60 GET --cacert {ca} --no-keepalive");
        reads(
            &home.run(&line).ends_with(0),
            &["60 handshakes (", "resumed a session", "60 handshakes of TLS were made for 60 calls"],
        );
        let json = home.run("show @last --json").ends_with(0).json();
        let [full, resumed] = ["full", "resumed"].map(|name| json["rpc"]["connections"][name].as_u64().unwrap());
        assert!(full >= 1 && full + resumed == 60, "{full} {resumed}");
    }

    #[test]
    fn http2_keeps_several_calls_under_way() {
        let home = Home::new();
        let Some((_nginx, [tls, clear, few], ca)) = served(&home) else { return };
        let line = format!("rpc https://localhost:{tls}/ -k 1000 GET --cacert {ca} --http2 --inflight 20");
        let output = home.run(&line).ends_with(0);
        reads(&output, &["GET: 1000 calls answered, 0 failed", ", h2; ", "4 streams at a time", "W185"]);
        home.run("verify @last").ends_with(0);
        let line = format!("rpc http://127.0.0.1:{clear}/ -k 400 GET --http2 --inflight 8");
        reads(&home.run(&line).ends_with(0), &["400 calls answered, 0 failed", "HTTP/2 without TLS"]);
        let line = format!("rpc http://127.0.0.1:{clear}/ -k 200 GET --http2 --rate 2k -P 2");
        reads(&home.run(&line).ends_with(0), &["200 calls answered, 0 failed"]);
        assert_eq!(home.run("show @last --json").ends_with(0).json()["rpc"]["protocol"], "http2");
        let line = format!("rpc http://127.0.0.1:{clear}/ -k 20 POST -value x 70000 --http2 --no-save");
        home.run(&line).ends_with(0);
        // A server that closes behind seven calls is called again.
        let line = format!("rpc http://127.0.0.1:{few}/ -k 100 GET --http2 --inflight 3");
        reads(&home.run(&line).ends_with(0), &["100 calls answered, 0 failed"]);
    }

    #[test]
    fn certificates_are_checked_unless_it_is_said_loudly() {
        let home = Home::new();
        let Some((_nginx, [tls, clear, _], ca)) = served(&home) else { return };
        let unknown = home.run(&format!("rpc https://localhost:{tls}/ GET --no-save")).ends_with(3);
        unknown.says(&["E137", "signed by none", "--cacert FILE", "--insecure-tls"]);
        let line = format!("rpc https://localhost:{tls}/ -k 20 GET --insecure-tls");
        reads(&home.run(&line).ends_with(0), &["CERTIFICATES WERE NOT CHECKED", "W184"]);
        let line = format!("rpc https://127.0.0.1:{clear}/ GET --cacert {ca} --no-save");
        home.run(&line).ends_with(3).says(&["E137", "not TLS"]);
        home.run(&format!("rpc https://localhost:{tls}/ GET --cacert /nowhere")).ends_with(2).says(&["cannot be read"]);
        home.run(&format!("rpc https://localhost:{tls}/ GET --cacert {ca} --insecure-tls")).ends_with(2);
        for line in ["--http2 --verify", "--http2 --no-keepalive", "--http2 -P 4 -T 2"] {
            home.run(&format!("rpc https://localhost:{tls}/ -k 9 GET --cacert {ca} {line}")).ends_with(2);
        }
        home.run("rpc redis://127.0.0.1 PING --http2").ends_with(2).says(&["--http2 is for HTTP"]);
    }

    #[test]
    fn web_server_at_a_unix_socket_speaks_tls() {
        let home = Home::new();
        let Some(ca) = certificates(&home) else { return eprintln!("skipped: no openssl") };
        let (folder, socket) = (home.temporary(), home.temporary().join("web.sock"));
        let (shown, ca) = (folder.display(), ca.display());
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let temporary: String = temporary.iter().map(|name| format!("{name}_temp_path {shown}/{name};\n")).collect();
        let configuration = format!(
            "daemon off; master_process off; pid {shown}/pid; error_log {shown}/log; events {{}}\n\
             http {{ access_log off; {temporary}\n\
             server {{ listen unix:{shown}/web.sock ssl; ssl_certificate {shown}/cert.pem; ssl_certificate_key {shown}/key.pem;\n\
             location / {{ return 200 hello; }} }} }}\n"
        );
        std::fs::write(folder.join("nginx.conf"), configuration).unwrap();
        let mut command = Command::new("nginx");
        command.arg("-p").arg(&folder).arg("-c").arg(folder.join("nginx.conf")).arg("-e").arg(folder.join("log"));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let Ok(child) = child else { return eprintln!("skipped: no nginx") };
        let _nginx = Server(child);
        assert!(within(LIMIT, || std::os::unix::net::UnixStream::connect(&socket).is_ok()), "it does not listen");
        let line = format!("rpc https+unix://{}:/ -k 50 GET --cacert {ca} --no-save", socket.display());
        reads(&home.run(&line).ends_with(0), &["GET: 50 calls answered, 0 failed", "TLS 1.", "Unix socket"]);
    }

    /// A server of Redis over TLS at a Unix socket, which Redis itself cannot be: the bytes that `openssl s_server` opens are answered here.
    fn redis_at_socket(home: &Home, socket: &std::path::Path) -> Server {
        use std::io::{Read, Write};
        let mut command = Command::new("openssl");
        // By its name in the folder: openssl refuses a path of more than 31 bytes (NI_MAXSERV).
        let name = socket.file_name().unwrap();
        command.current_dir(home.temporary()).args(["s_server", "-quiet", "-naccept", "1", "-unix"]).arg(name);
        command.args(["-cert", "cert.pem", "-key", "key.pem", "-CAfile", "ca.pem", "-Verify", "1"]);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (mut replies, mut asked) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        std::thread::spawn(move || {
            let (mut all, mut part) = (Vec::new(), [0; 4096]);
            while let Ok(got @ 1..) = asked.read(&mut part) {
                all.extend_from_slice(&part[..got]);
                let ping = b"*1\r\n$4\r\nPING\r\n";
                while all.starts_with(ping) {
                    all.drain(..ping.len());
                    if replies.write_all(b"+PONG\r\n").and_then(|()| replies.flush()).is_err() {
                        return;
                    }
                }
            }
        });
        assert!(within(LIMIT, || socket.exists()), "it does not listen");
        Server(child)
    }

    #[test]
    fn redis_at_a_unix_socket_speaks_tls_and_knows_its_client() {
        let home = Home::new();
        let Some(ca) = certificates(&home) else { return eprintln!("skipped: no openssl") };
        let ([cert, key], socket) = (of_client(&home), home.temporary().join("redis.sock"));
        let _server = redis_at_socket(&home, &socket);
        let target = format!("rediss+unix://{}", socket.display());
        let line = format!("rpc {target} -k 50 PING --cacert {} --cert {cert} --cert-key {key}", ca.display());
        reads(&home.run(&line).ends_with(0), &["PING: 50 calls answered, 0 failed", "TLS 1.", "Unix socket"]);
        let kept = std::fs::read_to_string(&key).unwrap();
        let secret = kept.lines().nth(1).unwrap();
        let found = Command::new("grep").args(["-rlF", secret]).arg(home.runs()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&found.stdout), "", "the key is in the record");
    }

    #[test]
    fn redis_that_knows_its_clients_by_certificate_is_called() {
        let home = Home::new();
        let Some(ca) = certificates(&home) else { return eprintln!("skipped: no openssl") };
        let ([cert, key], port) = (of_client(&home), free_port());
        let mut command = Command::new("redis-server");
        command.current_dir(home.temporary()).args(["--port", "0", "--save", "", "--bind", "127.0.0.1"]);
        command.args(["--tls-port", &port.to_string(), "--tls-cert-file", "cert.pem", "--tls-key-file", "key.pem"]);
        command.args(["--tls-ca-cert-file", "ca.pem"]);
        let Some(_redis) = started(command, port) else { return eprintln!("skipped: no redis-server") };
        let line = format!("rpc rediss://localhost:{port} -k 100 PING --no-save --cacert {}", ca.display());
        let output = home.run(&format!("{line} --cert {cert} --cert-key {key}")).ends_with(0);
        reads(&output, &["PING: 100 calls answered, 0 failed"]);
        // Certificate and key in one file, as curl has it.
        let both = home.temporary().join("both.pem");
        let texts = [&cert, &key].map(|file| std::fs::read_to_string(file).unwrap());
        std::fs::write(&both, texts.concat()).unwrap();
        home.run(&format!("{line} --cert {}", both.display())).ends_with(0);
        home.run(&line).ends_with(4).says(&["E35", "it wants a certificate of the client", "--cert FILE"]);
        home.run(&format!("{line} --cert {cert}")).ends_with(3).says(&["E137", "there is no private key"]);
        home.run(&format!("{line} --cert-key {key}")).ends_with(2).says(&["--cert"]);
        home.run("rpc redis://127.0.0.1 PING --cert x").ends_with(2).says(&["--cert is for TLS"]);
    }

    #[test]
    fn redis_is_called_over_tls() {
        let home = Home::new();
        let Some(ca) = certificates(&home) else { return eprintln!("skipped: no openssl") };
        let (port, folder) = (free_port(), home.temporary());
        let mut command = Command::new("redis-server");
        command.current_dir(&folder).args([
            "--port",
            "0",
            "--save",
            "",
            "--tls-auth-clients",
            "no",
            "--bind",
            "127.0.0.1",
        ]);
        command.args(["--tls-port", &port.to_string(), "--tls-cert-file", "cert.pem", "--tls-key-file", "key.pem"]);
        command.args(["--tls-ca-cert-file", "ca.pem"]);
        let Some(_redis) = started(command, port) else { return eprintln!("skipped: no redis-server") };
        let ca = ca.display();
        let line =
            format!("rpc rediss://localhost:{port}/1 -k 100 SET -key k0 + -value v 20000 --then -k 100 GET -key k0 +");
        let output = home.run(&format!("{line} --verify --cacert {ca}")).ends_with(0);
        reads(&output, &["SET: 100 calls answered, 0 failed", "every byte of 100 of 200", "TLS 1.3"]);
        let line = format!("rpc rediss://localhost:{port} -k 400 PING --inflight 16 --cacert {ca} --no-save");
        reads(&home.run(&line).ends_with(0), &["PING: 400 calls answered, 0 failed"]);
        let line = format!("rpc rediss://localhost:{port} -k 400 PING --rate 4k --cacert {ca} --no-save");
        reads(&home.run(&line).ends_with(0), &["PING: 400 calls answered, 0 failed"]);
    }
}
