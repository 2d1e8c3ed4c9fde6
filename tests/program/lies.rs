//! A far end that lies: its impossible figures end the run, and nothing of them is printed as a result.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use msgpath_core::schema::EndReport;
use msgpath_run::greeting::GREETING;
use msgpath_run::wire::{self, ToNear};

use crate::command::{Home, Running, free_port};

type Lie = fn(&mut EndReport);

/// Stands between a near end and a real `serve`, and changes what `serve` reports of a round.
struct Liar {
    address: SocketAddr,
    talk: JoinHandle<()>,
}

impl Liar {
    fn new(serve: SocketAddr, lie: Lie) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let talk = std::thread::spawn(move || {
            let (near, _) = listener.accept().unwrap();
            let far = TcpStream::connect(serve).unwrap();
            for stream in [&near, &far] {
                stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                stream.set_nodelay(true).unwrap();
            }
            let (mut from_near, mut to_far) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            let orders = std::thread::spawn(move || {
                let _ = std::io::copy(&mut from_near, &mut to_far);
                let _ = to_far.shutdown(std::net::Shutdown::Write);
            });
            answers(near, far, lie);
            orders.join().unwrap();
        });
        Self { address, talk }
    }
}

/// What the far end says, until one of the two has gone.
fn answers(mut near: TcpStream, mut far: TcpStream, lie: Lie) {
    let mut greeting = [0; GREETING.len()];
    far.read_exact(&mut greeting).unwrap();
    near.write_all(&greeting).unwrap();
    while let Ok(Some((mut message, bytes))) = wire::read::<ToNear>(&mut far) {
        if let ToNear::Done { report, .. } = &mut message {
            lie(report);
        }
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

#[test]
fn a_far_end_that_lies_ends_the_run_and_is_no_result() {
    let lies: [(&str, Lie); 7] = [
        ("nothing but the truth", |_| ()),
        ("messages received", |far| far.delivery.received = 699_050_492_000),
        ("bytes received", |far| far.bytes_received = u64::MAX),
        ("ms within", |far| far.elapsed_ns = u64::MAX),
        ("faster than memory", |far| far.elapsed_ns = 1),
        ("of CPU time", |far| (far.user_ns, far.system_ns) = (u64::MAX, u64::MAX)),
        ("of waiting for a CPU", |far| far.run_delay_ns = Some(2_206_333_548_000_000_000)),
    ];
    let home = Home::new();
    let (_running, address) = serve(&home);
    for verb in ["echo", "stream"] {
        for (says, lie) in lies {
            let liar = Liar::new(address, lie);
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
