//! HTTP/2 over one connection: several calls at once, each a stream.
//!
//! Frames, HPACK, windows and states of streams are those of `h2`, the library that most programs in Rust speak HTTP/2 with. It wants
//! an asynchronous stream; the one it gets is two buffers, so that it does no I/O, needs no runtime, and every call of the kernel is
//! ours. What it computes and allocates for a call is part of the call's time.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, Connection as H2, ResponseFuture, SendRequest};
use h2::{Error, Reason, RecvStream};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, header};
use msgpath_core::counts::CallCounts;
use msgpath_core::foreign::{shown, shown_bytes};
use msgpath_core::{Exit, Problem};
use msgpath_sys::clock;
use msgpath_sys::poll::{Interest, poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection::Watch;
use super::http::{Http, has_body};
use super::orders::Broken;
use super::part::{Gone, Got};
use super::stream::Stream;
use super::wire::{Remark, Reply};

/// Bytes of one read.
const READ: usize = 64 << 10;
/// Bytes that the server may send of a stream before it must be told that there is room.
const STREAM_WINDOW: u32 = 2 << 20;
/// The same of all streams together.
const WINDOW: u32 = 8 << 20;
/// The longest list of header fields that is taken, bytes.
const MOST_FIELDS: u32 = 64 << 10;
/// An interruption is looked for this often, ms.
const LOOK_MS: i32 = 50;
/// A call goes so often again that the server refuses before it looks at it.
const MOST_TRIES: u32 = 16;

/// What lies between the library and the socket.
#[derive(Clone, Default)]
struct Pipe(Arc<Mutex<Ends>>);

#[derive(Default)]
struct Ends {
    incoming: Vec<u8>,
    at: usize,
    outgoing: Vec<u8>,
    closed: bool,
}

impl Pipe {
    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.0.lock().expect("no holder panics")
    }
}

impl AsyncRead for Pipe {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut ends = self.ends();
        let rest = &ends.incoming[ends.at..];
        if rest.is_empty() {
            return if ends.closed { Poll::Ready(Ok(())) } else { Poll::Pending };
        }
        let taken = rest.len().min(to.remaining());
        to.put_slice(&rest[..taken]);
        ends.at += taken;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.ends().outgoing.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Streams that something has come for.
type Ready = Arc<Mutex<Vec<usize>>>;

/// Says that something has come for the stream in a place.
struct Bell {
    place: usize,
    ready: Ready,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ready.lock().expect("no holder panics").push(self.place);
    }
}

/// A call that is to go, or to go again.
#[derive(Default)]
pub struct Call {
    /// Its number in the round.
    pub sequence: u64,
    /// What is known of it.
    pub gone: Gone,
    /// As HTTP/1.1 would send it.
    pub text: Vec<u8>,
    /// How often it went.
    pub tries: u32,
}

/// A call that is under way.
struct Flight {
    call: Call,
    state: State,
    got: Got,
}

enum State {
    Head(ResponseFuture),
    Body(RecvStream),
}

/// What became of a call.
pub enum Done {
    /// It was answered.
    Answered(Call, Box<Got>),
    /// The server has not looked at it: it may go again.
    Again(Call, &'static str),
}

/// A connection of HTTP/2.
pub struct Http2 {
    pipe: Pipe,
    send: SendRequest<Bytes>,
    connection: H2<Pipe, Bytes>,
    fields: HeaderMap,
    uri: Uri,
    places: Vec<Option<Flight>>,
    free: Vec<usize>,
    bells: Vec<Waker>,
    ready: Ready,
    woken: Vec<usize>,
    /// Those of calls that are about to go.
    fresh: Vec<usize>,
    buffer: Vec<u8>,
    /// The server closes it: it takes no further call.
    leaving: bool,
    /// Calls that were answered.
    answered: u64,
}

impl Http2 {
    /// Greets the server, and waits until it has said how many streams there may be.
    ///
    /// # Errors
    /// E138: it speaks no HTTP/2.
    pub fn begin(
        http: &Http,
        secure: bool,
        stream: &Stream,
        (inflight, patience): (u64, Duration),
        stop: &AtomicBool,
    ) -> Result<Http2, Problem> {
        let failed = |why: &str| {
            let hint = if secure { "without --http2" } else { "without --http2; or https://, where it has that" };
            Problem::new("E138", Exit::CannotStart, format!("the server speaks no HTTP/2: {}", shown(why))).hint(hint)
        };
        let (fields, uri) = template(http, secure).map_err(|why| failed(&why))?;
        let pipe = Pipe::default();
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(WINDOW)
            .max_header_list_size(MOST_FIELDS)
            // None, until the server has said how many.
            .initial_max_send_streams(0);
        let mut begin = std::pin::pin!(builder.handshake::<_, Bytes>(pipe.clone()));
        let Poll::Ready(begun) = begin.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
            return Err(failed("the library waits"));
        };
        let (send, connection) = begun.map_err(|error| failed(&error.to_string()))?;
        let ready = Ready::default();
        let places = usize::try_from(inflight).unwrap_or(1).clamp(1, 4096);
        let bell = |place| Waker::from(Arc::new(Bell { place, ready: Arc::clone(&ready) }));
        let mut http2 = Self {
            pipe,
            send,
            connection,
            fields,
            uri,
            places: (0..places).map(|_| None).collect(),
            free: (0..places).rev().collect(),
            bells: (0..places).map(bell).collect(),
            ready,
            woken: Vec::new(),
            fresh: Vec::new(),
            buffer: vec![1; READ],
            leaving: false,
            answered: 0,
        };
        let until = clock::now() + patience.as_nanos() as u64;
        let mut calls = CallCounts::default();
        while http2.send.current_max_send_streams() == 0 {
            http2.turn().map_err(|error| failed(&error.to_string()))?;
            http2.flush(stream, &mut calls).map_err(|error| failed(&error.to_string()))?;
            if http2.send.current_max_send_streams() > 0 {
                break;
            }
            if stop.load(Ordering::Relaxed) {
                return Err(failed("interrupted"));
            }
            if clock::now() > until {
                return Err(failed("it does not say how many streams there may be"));
            }
            let heard = poll(stream.as_fd(), Interest::Read, LOOK_MS).and_then(|_| http2.hear(stream, false));
            if heard.map_err(|error| failed(&error.to_string()))? == Some(0) {
                return Err(failed("it closed the connection"));
            }
        }
        Ok(http2)
    }

    /// Streams that there may be at a time, as the server says.
    pub fn streams(&self) -> u64 {
        self.send.current_max_send_streams() as u64
    }

    /// How many calls more may go.
    pub fn room(&self) -> usize {
        let streams = self.send.current_max_send_streams().saturating_sub(self.in_flight());
        if self.leaving { 0 } else { self.free.len().min(streams) }
    }

    /// Calls under way.
    pub fn in_flight(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// The server closes it, and no call is under way any more.
    pub fn is_over(&self) -> bool {
        self.leaving && self.in_flight() == 0
    }

    /// Whether a call was answered over it.
    pub fn was_used(&self) -> bool {
        self.answered > 0
    }

    /// Makes a call a stream; it goes with the next [`flush`](Self::flush). It comes back where the connection takes none any more.
    ///
    /// # Errors
    /// The call cannot be one of HTTP/2.
    pub fn launch(&mut self, mut call: Call) -> Result<Option<Call>, Broken> {
        // One of its own: each waits until the one stream is open that it has begun, and here several are begun at once.
        let mut send = self.send.clone();
        if !matches!(send.poll_ready(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(()))) {
            self.leaving = true;
            return Ok(Some(call));
        }
        let (request, body) = self.request(&call).map_err(Broken::Foreign)?;
        let (response, mut sending) = match send.send_request(request, body.is_none()) {
            Ok(sent) => sent,
            Err(error) if error.is_go_away() || error.is_io() => {
                self.leaving = true;
                return Ok(Some(call));
            }
            Err(error) => return Err(Broken::Foreign(error.to_string())),
        };
        if let Some(body) = body {
            sending.send_data(body, true).map_err(|error| Broken::Foreign(error.to_string()))?;
        }
        call.tries += 1;
        let place = self.free.pop().expect("there is room");
        self.places[place] = Some(Flight { call, state: State::Head(response), got: Got::default() });
        self.fresh.push(place);
        Ok(None)
    }

    /// A request and its body out of one of HTTP/1.1.
    fn request(&self, call: &Call) -> Result<(Request<()>, Option<Bytes>), String> {
        let Call { text, gone, .. } = call;
        let mut words = text.split(|byte| *byte == b' ');
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut uri = self.uri.clone().into_parts();
        let path = PathAndQuery::from_maybe_shared(Bytes::copy_from_slice(path)).map_err(|error| error.to_string())?;
        uri.path_and_query = Some(path);
        let mut request = Request::new(());
        *request.method_mut() = Method::from_bytes(method).map_err(|error| error.to_string())?;
        *request.uri_mut() = Uri::from_parts(uri).map_err(|error| error.to_string())?;
        *request.headers_mut() = self.fields.clone();
        let body = &text[gone.sent.body.clone()];
        let has_body = !body.is_empty() || std::str::from_utf8(method).is_ok_and(has_body);
        if has_body {
            request.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
        }
        Ok((request, Some(Bytes::copy_from_slice(body)).filter(|body| !body.is_empty())))
    }

    /// Lets the library do what it can with what has come.
    fn turn(&mut self) -> Result<(), Error> {
        match Pin::new(&mut self.connection).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => Ok(()),
            Poll::Ready(Ok(())) => {
                self.leaving = true;
                Ok(())
            }
            // Calls beyond the last one that the server has taken learn it by themselves.
            Poll::Ready(Err(error)) if error.is_go_away() && error.reason() == Some(Reason::NO_ERROR) => {
                self.leaving = true;
                Ok(())
            }
            Poll::Ready(Err(error)) => Err(error),
        }
    }

    /// Sends what the library has to say, in one call.
    fn flush(&mut self, stream: &Stream, calls: &mut CallCounts) -> io::Result<()> {
        let mut outgoing = std::mem::take(&mut self.pipe.ends().outgoing);
        if !outgoing.is_empty() {
            stream.send(&outgoing, calls)?;
        }
        outgoing.clear();
        self.pipe.ends().outgoing = outgoing;
        Ok(())
    }

    /// Lets all go that was launched.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn go(&mut self, stream: &Stream, watch: &Watch, calls: &mut CallCounts) -> Result<(), Broken> {
        self.turn().map_err(|error| broken(&error, watch))?;
        self.flush(stream, calls).map_err(|_| watch.reason(0))?;
        let sent_at = clock::now();
        while let Some(place) = self.fresh.pop() {
            // So that its bell is hung up: a reply may have come with what was read before.
            self.woken.push(place);
            if let Some(flight) = &mut self.places[place] {
                flight.call.gone.sent_at = sent_at;
            }
        }
        Ok(())
    }

    /// Reads what is there; `None`: nothing. `waits`: until something comes.
    fn hear(&mut self, stream: &Stream, waits: bool) -> io::Result<Option<usize>> {
        let got = match waits {
            true => stream.recv(&mut self.buffer),
            false => stream.recv_now(&mut self.buffer),
        };
        let got = match got {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Ok(None);
            }
            got => got?,
        };
        let mut ends = self.pipe.ends();
        if ends.at == ends.incoming.len() {
            ends.incoming.clear();
            ends.at = 0;
        }
        ends.incoming.extend_from_slice(&self.buffer[..got]);
        ends.closed |= got == 0;
        Ok(Some(got))
    }

    /// Takes what is there, or what comes; `done` gets the calls that have ended. Whether more may be there.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn take(
        &mut self,
        stream: &Stream,
        (watch, calls): (&Watch, &mut CallCounts),
        waits: bool,
        done: &mut VecDeque<Done>,
    ) -> Result<bool, Broken> {
        let got = match self.hear(stream, waits) {
            Ok(Some(got)) => got,
            Ok(None) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(Broken::Foreign(error.to_string())),
            Err(_) => return Err(watch.reason(0)),
        };
        let first = clock::now();
        calls.recv_calls += 1;
        calls.recv_empty += u64::from(got == 0);
        let turned = self.turn();
        self.woken.append(&mut self.ready.lock().expect("no holder panics"));
        // What has come whole is an answer, whatever becomes of the others.
        let mut failed = turned.map_err(|error| broken(&error, watch));
        while let Some(place) = self.woken.pop() {
            match self.look(place, first) {
                Ok(None) => {}
                Ok(Some(ended)) => {
                    self.answered += u64::from(matches!(ended, Done::Answered(..)));
                    done.push_back(ended);
                }
                Err(error) => failed = failed.and_then(|()| Err(broken(&error, watch))),
            }
        }
        failed?;
        if got == 0 && self.in_flight() > 0 {
            return Err(watch.reason(0));
        }
        self.leaving |= got == 0;
        // Room in the windows, and answers to pings.
        self.turn().map_err(|error| broken(&error, watch))?;
        self.flush(stream, calls).map_err(|_| watch.reason(0)).map(|()| got > 0)
    }

    /// How far the call in a place is. One that has failed with its connection stays.
    fn look(&mut self, place: usize, first: u64) -> Result<Option<Done>, Error> {
        let Some(mut flight) = self.places.get_mut(place).and_then(Option::take) else { return Ok(None) };
        let mut context = Context::from_waker(&self.bells[place]);
        let ended = loop {
            match &mut flight.state {
                State::Head(response) => match Pin::new(response).poll(&mut context) {
                    Poll::Pending => break None,
                    Poll::Ready(Ok(response)) => {
                        flight.got.first = first;
                        flight.got.bytes = field_bytes(response.headers());
                        flight.got.reply = reply(&response);
                        flight.state = State::Body(response.into_body());
                    }
                    Poll::Ready(Err(error)) => break Some(Err(error)),
                },
                State::Body(body) => match body.poll_data(&mut context) {
                    Poll::Pending => break None,
                    Poll::Ready(Some(Ok(bytes))) => {
                        flight.got.bytes += bytes.len();
                        if let Err(error) = body.flow_control().release_capacity(bytes.len()) {
                            break Some(Err(error));
                        }
                    }
                    Poll::Ready(Some(Err(error))) => break Some(Err(error)),
                    Poll::Ready(None) => match body.poll_trailers(&mut context) {
                        Poll::Pending => break None,
                        Poll::Ready(Ok(trailers)) => {
                            flight.got.bytes += trailers.as_ref().map_or(0, field_bytes);
                            break Some(Ok(()));
                        }
                        Poll::Ready(Err(error)) => break Some(Err(error)),
                    },
                },
            }
        };
        let Some(ended) = ended else {
            self.places[place] = Some(flight);
            return Ok(None);
        };
        let t4 = clock::now();
        let reset = match ended {
            Ok(()) => None,
            Err(error) => match unseen(&error).filter(|_| flight.call.tries < MOST_TRIES) {
                Some(why) => {
                    self.leaving |= error.is_go_away();
                    self.free.push(place);
                    return Ok(Some(Done::Again(flight.call, why)));
                }
                // One stream has failed, the others go on.
                None if error.is_reset() && error.is_remote() => Some(error.reason().unwrap_or(Reason::INTERNAL_ERROR)),
                None => {
                    self.places[place] = Some(flight);
                    return Err(error);
                }
            },
        };
        self.free.push(place);
        let Flight { call, mut got, .. } = flight;
        got.t4 = t4;
        if let Some(reason) = reset {
            let remark = Remark { text: format!("RST_STREAM {reason:?}"), failed: true };
            got.first = if got.first == 0 { first } else { got.first };
            got.reply = Reply { status: 1, remark: Some(remark), ..Reply::default() };
        }
        Ok(Some(Done::Answered(call, Box::new(got))))
    }

    /// The calls under way, which have no answer.
    pub fn drain(&mut self) -> impl Iterator<Item = Call> + '_ {
        self.free = (0..self.places.len()).rev().collect();
        self.places.iter_mut().filter_map(Option::take).map(|flight| flight.call)
    }
}

/// Why the server has not looked at a call, where it says so (RFC 9113, 6.8 and 8.7).
fn unseen(error: &Error) -> Option<&'static str> {
    if !error.is_remote() {
        return None;
    }
    match (error.is_go_away(), error.reason()) {
        (true, Some(Reason::NO_ERROR)) => {
            Some("made again over a new connection: the server had closed the old one (GOAWAY)")
        }
        (false, Some(Reason::REFUSED_STREAM)) => Some("made again: the server had refused its stream (REFUSED_STREAM)"),
        _ => None,
    }
}

fn broken(error: &Error, watch: &Watch) -> Broken {
    match error.is_io() {
        true => watch.reason(0),
        false => Broken::Foreign(format!("HTTP/2: {}", shown(&error.to_string()))),
    }
}

/// Bytes of names and values: what HPACK makes of them is not counted.
fn field_bytes(fields: &HeaderMap) -> usize {
    fields.iter().map(|(name, value)| name.as_str().len() + value.len()).sum()
}

/// What a head says.
fn reply(response: &http::Response<RecvStream>) -> Reply {
    let status = u32::from(response.status().as_u16());
    let failed = status >= 400;
    let field = |name: HeaderName| response.headers().get(name).map(|value| shown_bytes(value.as_bytes(), 64));
    let remark = match (status, field(header::LOCATION)) {
        (400.., _) => Some(status.to_string()),
        (300..400, Some(location)) => Some(format!("{status} to {location}: measured as the reply")),
        _ => None,
    };
    Reply {
        status: if failed { status } else { 0 },
        server: field(header::SERVER),
        remark: remark.map(|text| Remark { text, failed }),
        ..Reply::default()
    }
}

/// The fields of every request, and where it goes.
fn template(http: &Http, secure: bool) -> Result<(HeaderMap, Uri), String> {
    let (mut fields, mut host) = (HeaderMap::new(), None);
    for line in http.fields().lines() {
        let (name, value) = line.split_once(':').ok_or("a field without a name")?;
        let (name, value) = (name.to_ascii_lowercase(), value.trim());
        match name.as_str() {
            "host" => host = Some(value.to_owned()),
            // Connections of HTTP/2 have none of these (RFC 9113, 8.2.2).
            "connection" | "keep-alive" | "proxy-connection" | "transfer-encoding" | "upgrade" => {}
            _ => {
                let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| error.to_string())?;
                fields.append(name, HeaderValue::from_str(value).map_err(|error| error.to_string())?);
            }
        }
    }
    let uri = Uri::builder().scheme(if secure { "https" } else { "http" }).authority(host.unwrap_or_default());
    let uri = uri.path_and_query("/").build().map_err(|error| error.to_string())?;
    Ok((fields, uri))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::OwnedFd;
    use std::thread::JoinHandle;

    use msgpath_rpc::command::parse;

    use super::super::maker::{Draws, Maker};
    use super::*;

    const END: u8 = 1;
    const ACK: u8 = 1;
    const HEAD: u8 = 4;

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut out = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        out.extend([kind, flags]);
        out.extend(stream.to_be_bytes());
        out.extend(payload);
        out
    }

    fn headers(flags: u8, block: &[u8]) -> Vec<u8> {
        frame(1, HEAD | flags, 1, block)
    }

    fn data(flags: u8, bytes: &[u8]) -> Vec<u8> {
        frame(0, flags, 1, bytes)
    }

    /// A field whose name is number `name` of the static table, with a value of its own.
    fn field(name: u8, value: &str) -> Vec<u8> {
        let mut out = if name < 15 { vec![name] } else { vec![0x0f, name - 15] };
        out.push(value.len() as u8);
        out.extend(value.bytes());
        out
    }

    /// A frame as it is heard: its kind, flags and payload.
    type Frame = (u8, u8, Vec<u8>);

    /// The next frame.
    fn read(stream: &mut TcpStream) -> Option<Frame> {
        let mut head = [0; 9];
        stream.read_exact(&mut head).ok()?;
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        stream.read_exact(&mut payload).ok()?;
        Some((head[3], head[4], payload))
    }

    /// A server of one connection that greets with these settings, and says `reply` to the first request; then what it still hears.
    fn server(settings: Vec<u8>, reply: Vec<u8>) -> (TcpStream, JoinHandle<Vec<Frame>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let served = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut preface = [0; 24];
            stream.read_exact(&mut preface).unwrap();
            assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
            stream.write_all(&settings).unwrap();
            let mut heard = Vec::new();
            while let Some(frame) = read(&mut stream) {
                let request = frame.0 == 1;
                heard.push(frame);
                if request {
                    // The client may have gone already.
                    let _ = stream.write_all(&reply);
                    let _ = stream.shutdown(std::net::Shutdown::Write);
                }
            }
            heard
        });
        (client, served)
    }

    fn call(line: &str) -> Call {
        let script = parse(&line.split_whitespace().collect::<Vec<_>>()).unwrap();
        let (mut text, mut draws) = (Vec::new(), Draws::of(1, 1).remove(0));
        let step = &script.steps[0];
        let sent = http().build(&step.method, &mut Maker::new(step, 0, 1), &mut draws, &mut text);
        Call { gone: Gone { sent, ..Gone::default() }, text, ..Call::default() }
    }

    fn http() -> Http {
        Http::new("h:1".into(), "/a".into()).with("X-Y: z\r\nConnection: close\r\n")
    }

    type Ended = Result<Vec<Done>, Broken>;

    /// What a reply is, as frames; its status, its bytes, and what is said of it.
    type Case = (&'static str, Vec<u8>, u32, usize, Option<&'static str>);

    /// One call of a server that says this.
    fn called(line: &str, reply: Vec<u8>) -> (Ended, Vec<Frame>) {
        let (client, served) = server(frame(4, 0, 0, &[]), reply);
        let stream = Stream::from(OwnedFd::from(client));
        let watch = Watch::new(stream.as_fd());
        let patience = (4, Duration::from_secs(600));
        let mut http2 = Http2::begin(&http(), false, &stream, patience, &AtomicBool::new(false)).unwrap();
        let (mut calls, mut done) = (CallCounts::default(), VecDeque::new());
        assert!(http2.room() > 0 && http2.launch(call(line)).unwrap().is_none());
        let mut ended = http2.go(&stream, &watch, &mut calls);
        while ended.is_ok() && done.is_empty() {
            ended = http2.take(&stream, (&watch, &mut calls), true, &mut done).map(drop);
        }
        drop((http2, watch, stream));
        let heard = served.join().unwrap();
        (if done.is_empty() { ended.map(|()| Vec::new()) } else { Ok(done.into()) }, heard)
    }

    /// Replies as servers send them: status, bytes of fields and body, and what is said of them.
    #[test]
    fn replies_end_with_their_stream() {
        let ok = [0x88];
        let both = |parts: &[Vec<u8>]| parts.concat();
        let early = headers(0, &field(8, "103"));
        let cases: Vec<Case> = vec![
            ("a head alone", headers(END, &ok), 0, 0, None),
            ("a body", both(&[headers(0, &ok), data(END, b"hello")]), 0, 5, None),
            ("an empty last frame", both(&[headers(0, &ok), data(0, b"hello"), data(END, b"")]), 0, 5, None),
            ("many frames", both(&[headers(0, &ok), data(0, b"a"), data(0, b"b"), data(END, b"c")]), 0, 3, None),
            ("padding", both(&[headers(0, &ok), frame(0, END | 8, 1, b"\x03hi\0\0\0")]), 0, 2, None),
            ("early hints", both(&[early.clone(), headers(0, &ok), data(END, b"x")]), 0, 1, None),
            ("early hints twice", both(&[early.clone(), early, headers(END, &ok)]), 0, 0, None),
            (
                "trailers",
                both(&[headers(0, &ok), data(0, b"x"), headers(END, &[&[0, 1][..], b"a", &[1], b"b"].concat())]),
                0,
                3,
                None,
            ),
            (
                "a head in two frames",
                both(&[frame(1, 0, 1, &[0x88]), frame(9, HEAD, 1, &field(54, "nginx")), data(END, b"")]),
                0,
                11,
                None,
            ),
            ("no content", headers(END, &[0x89]), 0, 0, None),
            ("not modified", headers(END, &[0x8b]), 0, 0, None),
            ("not found", both(&[headers(0, &[0x8d]), data(END, b"no")]), 404, 2, Some("404")),
            ("an odd status", headers(END, &field(8, "599")), 599, 0, Some("599")),
            (
                "a redirect",
                headers(END, &[field(8, "301"), field(46, "/new")].concat()),
                0,
                12,
                Some("301 to /new: measured as the reply"),
            ),
            ("settings again", both(&[frame(4, 0, 0, &[]), headers(END, &ok)]), 0, 0, None),
            ("a ping", both(&[frame(6, 0, 0, b"12345678"), headers(END, &ok)]), 0, 0, None),
            ("an unknown frame", both(&[frame(0x42, 0, 0, b"xyz"), headers(END, &ok)]), 0, 0, None),
            ("priority", both(&[frame(2, 0, 1, &[0; 5]), headers(END, &ok)]), 0, 0, None),
            ("a window", both(&[frame(8, 0, 0, &[0, 0, 1, 0]), headers(END, &ok)]), 0, 0, None),
            (
                "a reset with an error",
                both(&[headers(0, &ok), frame(3, 0, 1, &[0, 0, 0, 2])]),
                1,
                0,
                Some("RST_STREAM INTERNAL_ERROR"),
            ),
            ("a goodbye behind it", both(&[headers(END, &ok), frame(7, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0])]), 0, 0, None),
        ];
        for (name, reply, status, bytes, said) in cases {
            let (ended, _) = called("GET", reply);
            let Ok([Done::Answered(_, got)]) = ended.as_deref() else { panic!("{name}: no answer") };
            let remark = got.reply.remark.as_ref().map(|remark| remark.text.as_str());
            assert_eq!((got.reply.status, got.bytes, remark), (status, bytes, said), "{name}");
            assert!(got.first > 0 && got.t4 >= got.first, "{name}");
        }
    }

    #[test]
    fn calls_that_were_not_looked_at_may_go_again() {
        for (reply, why) in [(frame(3, 0, 1, &[0, 0, 0, 7]), "REFUSED_STREAM"), (frame(7, 0, 0, &[0; 8]), "GOAWAY")] {
            let (ended, _) = called("GET", reply);
            let Ok([Done::Again(call, said)]) = ended.as_deref() else { panic!("{why}: it does not go again") };
            assert!(call.tries == 1 && said.contains(why), "{said}");
        }
    }

    #[test]
    fn replies_that_are_none_are_refused() {
        let cases: Vec<(&str, Vec<u8>)> = vec![
            ("HTTP/1.1", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
            ("data without a head", data(END, b"hello")),
            ("a stream of nobody", frame(1, HEAD | END, 3, &[0x88])),
            ("fields that are no HPACK", headers(END, &[0x80])),
            ("a frame that is too long", frame(0, 0, 1, &[0; 20_000])),
            ("a ping of 7 bytes", frame(6, 0, 0, b"1234567")),
            ("fields without end", (0..400).flat_map(|_| frame(9, 0, 1, &[0x88; 10_000])).collect()),
            ("a goodbye with an error", frame(7, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 11])),
        ];
        for (name, reply) in cases {
            assert!(called("GET", reply).0.is_err(), "{name}");
        }
    }

    #[test]
    fn closed_connections_are_no_reply() {
        assert_eq!(called("GET", Vec::new()).0.map(|_| ()), Err(Broken::Closed(0)));
    }

    #[test]
    fn requests_carry_their_body_and_answer_pings() {
        let reply = [frame(6, 0, 0, b"12345678"), headers(END, &[0x88])].concat();
        let (ended, heard) = called("PUT -key k -value abc", reply);
        assert_eq!(ended.unwrap().len(), 1);
        let body: Vec<u8> =
            heard.iter().filter(|(kind, ..)| *kind == 0).flat_map(|(.., bytes)| bytes.clone()).collect();
        assert_eq!(body, b"abc");
        let pong = heard.iter().find(|(kind, flags, _)| (*kind, *flags) == (6, ACK)).expect("an answer to the ping");
        assert_eq!(pong.2, b"12345678");
        let settings = &heard.iter().find(|(kind, flags, _)| (*kind, *flags) == (4, 0)).unwrap().2;
        assert!(settings.chunks(6).any(|one| one == [0, 2, 0, 0, 0, 0]), "pushes are not asked for: {settings:?}");
    }

    #[test]
    fn streams_are_as_many_as_the_server_allows() {
        let limit = frame(4, 0, 0, &[0, 3, 0, 0, 0, 2]);
        let (client, served) = server(limit, headers(END, &[0x88]));
        let stream = Stream::from(OwnedFd::from(client));
        let patience = (9, Duration::from_secs(600));
        let mut http2 = Http2::begin(&http(), false, &stream, patience, &AtomicBool::new(false)).unwrap();
        assert_eq!(http2.streams(), 2);
        for _ in 0..2 {
            assert!(http2.room() > 0 && http2.launch(call("GET")).unwrap().is_none());
        }
        assert!(http2.room() == 0 && http2.in_flight() == 2);
        assert_eq!(http2.drain().count(), 2);
        drop((http2, stream));
        served.join().unwrap();
    }

    #[test]
    fn servers_of_something_else_are_named() {
        for (greeting, said) in [(&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "speaks no HTTP/2"), (b"", "closed")] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let served = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 4096]);
                stream.write_all(greeting).unwrap();
            });
            let stream = Stream::from(OwnedFd::from(client));
            let patience = (1, Duration::from_secs(600));
            let problem = Http2::begin(&http(), false, &stream, patience, &AtomicBool::new(false)).map(|_| ());
            let problem = problem.unwrap_err();
            assert!(problem.code == "E138" && problem.what.contains(said), "{problem}");
            served.join().unwrap();
        }
    }
}
