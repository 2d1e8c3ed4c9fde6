//! An echo server with Rust's standard library: one thread a connection, blocking calls. Its argument is its port.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

fn serve(mut connection: TcpStream) -> std::io::Result<()> {
    connection.set_nodelay(true)?;
    let mut buffer = vec![0; 65536];
    loop {
        match connection.read(&mut buffer)? {
            0 => return Ok(()),
            got => connection.write_all(&buffer[..got])?,
        }
    }
}

fn main() -> std::io::Result<()> {
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok()).expect("usage: echo PORT");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    for connection in listener.incoming().flatten() {
        std::thread::spawn(move || serve(connection));
    }
    Ok(())
}
