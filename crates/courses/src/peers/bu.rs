//! Probes of CS 455/655: the server with all its answers, and a client that understands the servers in use.

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::classic::bu::{Answer, DelayUnit, Expected, Measure, ServerReply, Session, Setup, came_back, server_reply};
use crate::classic::lines::{Lines, TooLong};
use crate::classic::{Spread, shown};
use msgpath_core::Problem;
use msgpath_core::units::{BitUnits, Glyphs, bits_per_second};
use msgpath_sys::clock;
use serde::Serialize;

use super::server::{End, Guest};
use super::{Target, Watch, receive, send_all, unclear, watched};

/// What is read at once, bytes.
const PART: usize = 64 << 10;
/// How often a delay looks whether it should go on.
const SLICE: Duration = Duration::from_millis(50);

/// One connection of the server.
pub(super) fn answer(unit: DelayUnit, guest: &Guest<'_>) -> End {
    let mut session = Session::new(unit);
    let mut lines = Lines::default();
    let mut part = vec![0; PART];
    loop {
        loop {
            let (answer, line) = match lines.next_line(session.limit()) {
                Ok(Some(line)) => (session.take(line), line),
                Ok(None) => break,
                Err(TooLong) => (session.too_long(), &[][..]),
            };
            let delay = match (answer, session.setup()) {
                (Answer::Echo, Some(setup)) => Duration::from_nanos(setup.delay_ns),
                _ => Duration::ZERO,
            };
            guest.takes(delay + Duration::from_secs(1));
            wait(delay, guest);
            guest.is_within(line.len());
            let reply = if answer == Answer::Echo { line } else { answer.text().as_bytes() };
            if let Err(error) = send_all(&guest.stream, reply) {
                return End::Broken(error);
            }
            guest.may_idle();
            if answer.ends() {
                let (count, text) = (session.answered(), answer.text().trim_end());
                if answer != Answer::Closing {
                    leave(guest, &mut part);
                    return End::Refused(format!("\"{text}\" after {count} probes"));
                }
                let measure = session.setup().map_or("", |setup| setup.measure.word());
                guest.say(&format!("{measure}: {count} probes came back"));
                return End::Well;
            }
        }
        let midway = lines.pending() > 0;
        match receive(&guest.stream, &mut part) {
            Ok(0) if guest.is_over() => return End::Refused("it was ended from here".into()),
            Ok(0) if session.setup().is_none() && lines.pending() == 0 => return End::Well,
            Ok(0) => return End::Refused(format!("closed without an end, after {} probes", session.answered())),
            Ok(got) => {
                if !midway {
                    guest.is_within(session.limit());
                }
                lines.push(&part[..got]);
            }
            Err(error) => return End::Broken(error),
        }
    }
}

/// Lets the peer read why it was refused: a close with bytes unread would reset the connection, and the answer with it.
fn leave(guest: &Guest<'_>, part: &mut [u8]) {
    guest.takes(super::FAREWELL);
    let _ = guest.stream.shutdown(std::net::Shutdown::Write);
    for _ in 0..64 {
        if !matches!(receive(&guest.stream, part), Ok(1..)) {
            return;
        }
    }
}

/// The delay of a reply, cut short only when the server stops.
fn wait(delay: Duration, guest: &Guest<'_>) {
    let until = clock::now() + delay.as_nanos() as u64;
    loop {
        let left = Duration::from_nanos(until.saturating_sub(clock::now()));
        if left.is_zero() || guest.is_over() {
            return;
        }
        std::thread::sleep(left.min(SLICE));
    }
}

/// What the client is asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Where the server is.
    pub target: Target,
    /// A set-up for each size; each gets a connection of its own.
    pub setups: Vec<Setup>,
}

/// What one set-up measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Probed {
    /// The set-up.
    pub setup: Setup,
    /// connect() until it returned, ns.
    pub connect_ns: u64,
    /// Round trips in their order, the delay included, ns.
    pub round_trips_ns: Vec<u64>,
}

impl Probed {
    /// Size / mean round trip, which the specification calls throughput, bits per second. It is the throughput of one
    /// probe in flight at a time, and not that of the path.
    pub fn specified_rate(&self) -> Option<f64> {
        let mean = Spread::of(&self.round_trips_ns)?.mean;
        (mean > 0.0).then(|| f64::from(self.setup.size) * 8e9 / mean)
    }

    /// For people: one line for each figure.
    pub fn say(&self, glyphs: Glyphs) -> String {
        let time = |ns: f64| glyphs.time(ns);
        let Setup { measure, probes, size, delay_ns, .. } = &self.setup;
        let Some(spread) = Spread::of(&self.round_trips_ns) else { return "no probe came back\n".to_owned() };
        let mut out = format!("{} of {size} bytes: {probes} probes, mean RTT {}\n", measure.word(), time(spread.mean));
        out += &format!(
            "  round trip  min {}   median {}   p90 {}   max {}   first {}\n",
            time(spread.min as f64),
            time(spread.median),
            time(spread.p90 as f64),
            time(spread.max as f64),
            time(self.round_trips_ns[0] as f64)
        );
        if *delay_ns > 0 {
            out += &format!(
                "  delay       {} asked of the server; median without it {}\n",
                time(*delay_ns as f64),
                time((spread.median - *delay_ns as f64).max(0.0))
            );
        }
        out += &format!("  connect     {}, not counted\n", time(self.connect_ns as f64));
        if let Some(bits) = self.specified_rate().filter(|_| *measure == Measure::Tput) {
            out += &format!(
                "  throughput  {} = size / RTT, as specified: one probe in flight at a time (window 1), not what the \
                 channel carries\n",
                bits_per_second(bits, BitUnits::Si)
            );
        }
        out
    }
}

/// Carries out every set-up.
///
/// # Errors
/// E49: nobody answers there. E50: the server refused, went away, took too long, or sent back something else.
pub fn run(asked: &Asked, stop: &AtomicBool) -> Result<Vec<Probed>, Problem> {
    asked.setups.iter().map(|setup| probe(&asked.target, setup, stop)).collect()
}

/// Bytes that came and were not used yet.
struct Inbox {
    bytes: Vec<u8>,
    part: Vec<u8>,
    /// What may lie there unused, bytes.
    most: usize,
}

impl Inbox {
    /// Receives until `look` is content, which returns how many bytes it took.
    fn until<T>(
        &mut self,
        stream: &TcpStream,
        mut look: impl FnMut(&[u8], bool) -> Result<Option<(T, usize)>, String>,
    ) -> std::io::Result<T> {
        let other = |text: String| std::io::Error::new(std::io::ErrorKind::InvalidData, text);
        let mut ended = false;
        loop {
            if let Some((found, taken)) = look(&self.bytes, ended).map_err(other)? {
                self.bytes.drain(..taken);
                return Ok(found);
            }
            if ended {
                return Err(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "the server closed the connection"));
            }
            if self.bytes.len() > self.most {
                return Err(other("the server does not stop sending".into()));
            }
            match receive(stream, &mut self.part)? {
                0 => ended = true,
                got => self.bytes.extend_from_slice(&self.part[..got]),
            }
        }
    }
}

fn probe(target: &Target, setup: &Setup, stop: &AtomicBool) -> Result<Probed, Problem> {
    let (stream, connect_ns) = target.connect(stop)?;
    let watch = Watch::default();
    watch.expect(target.timeout);
    let broken = |what: &str, error: std::io::Error| match error.kind() {
        std::io::ErrorKind::InvalidData if !stop.load(Ordering::Relaxed) => {
            unclear(format!("{what}: the server said \"{error}\""))
        }
        _ => target.broken(what, &error, &watch, stop),
    };
    watched(&[&stream], &[&watch], stop, Duration::ZERO, || {
        stream.set_nodelay(true).map_err(|error| broken("TCP_NODELAY", error))?;
        let mut inbox = Inbox { bytes: Vec::new(), part: vec![0; PART], most: setup.size as usize + 2 * PART };
        let mut converse = |line: &[u8], expected| -> std::io::Result<ServerReply> {
            watch.expect(target.timeout);
            send_all(&stream, line)?;
            inbox.until(&stream, |bytes, ended| Ok(server_reply(bytes, expected, ended)))
        };
        let refused = |what: &str, server_reply: ServerReply| match server_reply {
            ServerReply::Good => Ok(()),
            other => Err(unclear(format!("the server answered {what} with \"{other}\""))),
        };
        let answer = converse(setup.line().as_bytes(), Expected::Ready).map_err(|error| broken("set-up", error))?;
        refused("the set-up", answer)?;
        let mut round_trips_ns = Vec::with_capacity(setup.probes.min(100_000) as usize);
        for sequence in 1..=setup.probes {
            let line = setup.probe(sequence);
            watch.expect(target.timeout + Duration::from_nanos(setup.delay_ns));
            let begun = clock::now();
            send_all(&stream, &line).map_err(|error| broken("a probe", error))?;
            inbox
                .until(&stream, |bytes, _| Ok(came_back(bytes, &line)?.map(|taken| ((), taken))))
                .map_err(|error| broken(&format!("probe {sequence}"), error))?;
            round_trips_ns.push(clock::now() - begun);
        }
        watch.expect(target.timeout);
        send_all(&stream, setup.dialect.end().as_bytes()).map_err(|error| broken("the end", error))?;
        let answer = inbox
            .until(&stream, |bytes, ended| Ok(server_reply(bytes, Expected::Closing, ended)))
            .map_err(|error| broken("the end", error))?;
        refused("the end", answer)?;
        if !inbox.bytes.iter().all(|byte| matches!(byte, b'\n' | b'\r' | 0)) {
            return Err(unclear(format!("the server still said \"{}\"", shown(&inbox.bytes))));
        }
        Ok(Probed { setup: setup.clone(), connect_ns, round_trips_ns })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_is_named_for_what_it_is() {
        let setup = Setup::parse("s tput 2 1000 10", DelayUnit::Ms).unwrap();
        let probed = Probed { setup, connect_ns: 100_000, round_trips_ns: vec![11_000_000, 13_000_000] };
        let text = probed.say(Glyphs::Ascii);
        assert!(text.contains("mean RTT 12.0 ms") && text.contains("667 kbit/s = size / RTT"), "{text}");
        assert!(text.contains("window 1") && text.contains("median without it 2.00 ms"), "{text}");
        let rtt = Setup { measure: Measure::Rtt, delay_ns: 0, ..probed.setup.clone() };
        let text = Probed { setup: rtt, ..probed }.say(Glyphs::Ascii);
        assert!(!text.contains("throughput") && !text.contains("delay"), "{text}");
    }
}
