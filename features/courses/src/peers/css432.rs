//! Write shapes: the server that counts its reads, and the client with its three types.

use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::classic::Receipt;
use crate::classic::css432::{Order, REPETITIONS_END, Sent, Shape, plausible, received_line};
use msgpath_core::Problem;
use msgpath_core::units::Glyphs;
use msgpath_sys::scatter::Scatter;
use msgpath_sys::{clock, msg};

use super::server::{End, Guest};
use super::{
    FAREWELL, Target, Watch, farewell, possible, readable, receive, receive_all, retried, send_all, tell, unclear,
    watched,
};

/// The most bytes of one iteration.
pub const MOST_MESSAGE: usize = 1 << 20;

/// Which of the reads a server answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counted {
    #[default]
    All,
    /// Those that returned less than was asked for, as the loop in the course's handout counts.
    Short,
}

/// How the server behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serving {
    /// Bytes that are read for each iteration.
    pub message: usize,
    /// Iterations of the older form, which does not send them; `None`: the newer form.
    pub older: Option<u32>,
    /// What the answer counts.
    pub counted: Counted,
}

impl Serving {
    pub(super) fn name(&self) -> String {
        match self.older {
            None => format!("write shapes, {} bytes an iteration", self.message),
            Some(times) => format!("write shapes (older form), {times} times {} bytes", self.message),
        }
    }
}

/// One connection of the server.
pub(super) fn answer(serving: &Serving, guest: &Guest<'_>) -> End {
    match try_answer(serving, guest) {
        Ok(()) => End::Well,
        Err(end) => end,
    }
}

fn try_answer(serving: &Serving, guest: &Guest<'_>) -> Result<(), End> {
    let stream = &guest.stream;
    readable(stream)?;
    let (repetition, order) = match serving.older {
        Some(repetition) => (repetition, Order::Host),
        None => {
            guest.is_within(4);
            let mut number = [0; 4];
            receive_all(stream, &mut number)?;
            plausible(number, REPETITIONS_END).ok_or_else(|| {
                End::Refused(format!("{number:?} is not a number of repetitions from 1 to {}", REPETITIONS_END - 1))
            })?
        }
    };
    guest.may_idle();
    readable(stream)?;
    let begun = clock::now();
    let mut receipt = Receipt::default();
    let mut message = vec![0; serving.message];
    for iteration in 0..repetition {
        guest.is_within(message.len());
        let mut done = 0;
        while done < message.len() {
            let got = receive(stream, &mut message[done..])?;
            if got == 0 {
                let whole = receipt.bytes;
                let what = format!("closed after {whole} bytes, in iteration {} of {repetition}", iteration + 1);
                return Err(End::Refused(what));
            }
            receipt.reads += 1;
            receipt.full += u64::from(got == message.len());
            receipt.bytes += got as u64;
            done += got;
        }
    }
    receipt.ns = clock::now() - begun;
    let counted = match serving.counted {
        Counted::All => receipt.reads,
        Counted::Short => receipt.short(),
    };
    guest.is_within(4);
    send_all(stream, &order.bytes(i32::try_from(counted).map_or(i32::MAX as u32, |counted| counted as u32)))?;
    if serving.older.is_some() {
        guest.say_classic(received_line(receipt.ns));
    }
    guest.say(&format!(
        "{repetition} iterations ({}), {}",
        if serving.older.is_some() { "older form" } else { order.name() },
        receipt.say(Glyphs::default())
    ));
    // A client of ours says that it has read the answer, and is told the rest. Others just close.
    guest.takes(FAREWELL);
    if matches!(receive(stream, &mut [0; 1]), Ok(0)) {
        tell(stream, &receipt);
    }
    Ok(())
}

/// What the client is asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Where the server is.
    pub target: Target,
    pub repetition: u32,
    /// Buffers of an iteration.
    pub nbufs: u32,
    /// Bytes of a buffer.
    pub bufsize: u32,
    /// How they are handed over.
    pub shape: Shape,
    /// In which order the repetitions are sent; `None`: the older form, which does not send them.
    pub order: Option<Order>,
    /// TCP_NODELAY; the courses' programs leave Nagle's algorithm on.
    pub nodelay: bool,
}

/// Sends everything and reads the answer.
///
/// # Errors
/// E49: nobody answers there. E50: the server went away, took too long, or answered no number.
pub fn run(asked: &Asked, stop: &AtomicBool) -> Result<Sent, Problem> {
    let (stream, connect_ns) = asked.target.connect(stop)?;
    let watch = Watch::default();
    watch.expect(asked.target.timeout);
    let broken = |what: &str, error: std::io::Error| asked.target.broken(what, &error, &watch, stop);
    watched(&[&stream], &[&watch], stop, Duration::ZERO, || {
        stream.set_nodelay(asked.nodelay).map_err(|error| broken("TCP_NODELAY", error))?;
        if let Some(order) = asked.order {
            send_all(&stream, &order.bytes(asked.repetition))
                .map_err(|error| broken("sending the repetitions", error))?;
        }
        let begun = clock::now();
        send_data(&stream, asked, &watch).map_err(|error| broken("sending the data", error))?;
        let sending_ns = clock::now() - begun;
        let mut number = [0; 4];
        // What is still in the buffers at both ends must go over first.
        watch.expect(asked.target.timeout + Duration::from_secs(2));
        receive_all(&stream, &mut number).map_err(|error| broken("waiting for the number of reads", error))?;
        let total_ns = clock::now() - begun;
        let bytes = u64::from(asked.nbufs) * u64::from(asked.bufsize) * u64::from(asked.repetition);
        // 0 is an answer as well: of a server that counts short reads only.
        let most = u32::try_from(bytes).unwrap_or(u32::MAX).min(i32::MAX as u32).saturating_add(1);
        let reads = plausible_answer(number, asked.order, most).map_err(|reads| {
            unclear(format!("the server says that it took {reads} reads"))
                .why(format!("each read returns a byte at least, and {bytes} were sent"))
        })?;
        let receipt = farewell(&stream, &watch, FAREWELL);
        receipt.map_or(Ok(()), |receipt| possible(&receipt, bytes, clock::now() - begun))?;
        Ok(Sent {
            shape: asked.shape,
            nbufs: asked.nbufs,
            bufsize: asked.bufsize,
            repetition: asked.repetition,
            bytes,
            connect_ns,
            sending_ns,
            total_ns,
            reads,
            receipt,
        })
    })
}

/// The number of reads: in the order that was sent where that is plausible, else in the other.
///
/// # Errors
/// The number in the order that was sent: in neither order it is below `most`.
fn plausible_answer(number: [u8; 4], order: Option<Order>, most: u32) -> Result<u32, u32> {
    let in_order = |order| match order {
        Order::Host => u32::from_le_bytes(number),
        Order::Network => u32::from_be_bytes(number),
    };
    let ours = in_order(order.unwrap_or_default());
    if ours < most { Ok(ours) } else { plausible(number, most).map(|(reads, _)| reads).ok_or(ours) }
}

fn send_data(stream: &TcpStream, asked: &Asked, watch: &Watch) -> std::io::Result<()> {
    let (nbufs, bufsize) = (asked.nbufs as usize, asked.bufsize as usize);
    let whole = nbufs * bufsize;
    match asked.shape {
        Shape::Writes => {
            let buffers = Scatter::new(nbufs, bufsize);
            for _ in 0..asked.repetition {
                watch.expect(asked.target.timeout);
                for at in 0..nbufs {
                    write_all(stream, buffers.piece(at))?;
                }
            }
        }
        Shape::Writev => {
            let buffers = Scatter::new(nbufs, bufsize);
            for _ in 0..asked.repetition {
                watch.expect(asked.target.timeout);
                let mut done = retried(|| msg::writev(stream.as_fd(), &buffers))?;
                while done < whole {
                    done += retried(|| msg::writev_rest(stream.as_fd(), &buffers, done))?;
                }
            }
        }
        Shape::Write => {
            let buffer = vec![0; whole];
            for _ in 0..asked.repetition {
                watch.expect(asked.target.timeout);
                write_all(stream, &buffer)?;
            }
        }
    }
    Ok(())
}

/// write(2), the course's call, until all is taken.
#[inline]
fn write_all(stream: &TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        done += retried(|| msg::write(stream.as_fd(), &bytes[done..]))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_in_the_order_that_makes_sense() {
        let most = 30_000_001;
        for (bytes, order, reads) in [
            (22_978_u32.to_le_bytes(), Some(Order::Host), Ok(22_978)),
            (22_978_u32.to_be_bytes(), Some(Order::Host), Ok(22_978)),
            (22_978_u32.to_be_bytes(), Some(Order::Network), Ok(22_978)),
            (22_978_u32.to_le_bytes(), None, Ok(22_978)),
            ([0; 4], Some(Order::Host), Ok(0)),
            (30_000_000_u32.to_le_bytes(), Some(Order::Host), Ok(30_000_000)),
            (0x3131_3131_u32.to_le_bytes(), Some(Order::Host), Err(0x3131_3131)),
            ([0xff; 4], Some(Order::Host), Err(u32::MAX)),
        ] {
            assert_eq!(plausible_answer(bytes, order, most), reads, "{bytes:?} {order:?}");
        }
    }
}
