//! TLS over a socket by rustls, which does no I/O: bytes go through it on their way to the kernel and back.
//!
//! A call's time begins before its bytes are encrypted and ends when the last ones are decrypted.

use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use msgpath_core::foreign::{shown, shown_bytes};
use msgpath_core::{Exit, Problem};
use msgpath_sys::clock;
use msgpath_sys::msg::{self, SendFlags};
use msgpath_sys::poll::{Interest, poll};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, HandshakeKind,
    RootCertStore, SignatureScheme,
};

use super::orders::{Checks, Identity, Secret, TlsOrder};
use crate::record::Shaken;

/// Bytes of one read from the kernel: a record and a little more.
const READ: usize = 20 << 10;
/// An interruption of a handshake is looked for this often, ms.
const LOOK_MS: i32 = 50;

/// How a connection of TLS begins: the same for all connections of a run, so that a session can be resumed.
#[derive(Clone)]
pub struct Client {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    /// The client has a certificate to show.
    has_identity: bool,
}

/// A connection of TLS whose handshake is done. Who sends and who receives have buffers of their own.
pub struct Tls {
    connection: Mutex<ClientConnection>,
    outgoing: Mutex<Vec<u8>>,
    incoming: Mutex<Incoming>,
    /// The client has a certificate to show.
    has_identity: bool,
}

/// What the kernel gave and rustls has not taken yet.
struct Incoming {
    bytes: Vec<u8>,
    at: usize,
    end: usize,
}

impl Incoming {
    fn new() -> Self {
        Self { bytes: vec![1; READ], at: 0, end: 0 }
    }

    fn feed(&mut self, connection: &mut ClientConnection) -> Result<(), Error> {
        let mut rest = &self.bytes[self.at..self.end];
        let taken = connection.read_tls(&mut rest).map_err(|error| Error::General(error.to_string()))?;
        self.at += taken;
        connection.process_new_packets().map(drop)
    }
}

impl Tls {
    /// How connections begin that an order asks for.
    ///
    /// # Errors
    /// E137: no roots, or certificates that cannot be read.
    pub fn client(order: &TlsOrder) -> Result<Client, Problem> {
        let provider = Arc::new(default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| Problem::new("E137", Exit::CannotStart, format!("TLS cannot begin: {error}")))?;
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier(order, provider)?);
        let mut config = match &order.identity {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let (chain, key) = own.parsed()?;
                builder.with_client_auth_cert(chain, key).map_err(|error| match error {
                    Error::InconsistentKeys(_) => no_identity("the private key is not that of the certificate"),
                    error => no_identity(&error.to_string()),
                })?
            }
        };
        config.alpn_protocols = order.protocol.iter().map(|name| name.clone().into_bytes()).collect();
        let name = order.name.clone();
        let name = ServerName::try_from(name).map_err(|error| {
            Problem::new(
                "E137",
                Exit::CannotStart,
                format!("{:?} is no name of a certificate: {error}", shown(&order.name)),
            )
        })?;
        Ok(Client { config: Arc::new(config), name, has_identity: order.identity.is_some() })
    }

    /// Encrypts a message and hands it to `send`, in one piece.
    ///
    /// # Errors
    /// As `send`.
    pub fn seal(&self, message: &[u8], send: impl FnOnce(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut outgoing = self.outgoing.lock().expect("no holder panics");
        outgoing.clear();
        {
            let mut connection = self.connection.lock().expect("no holder panics");
            connection.writer().write_all(message)?;
            while connection.wants_write() {
                connection.write_tls(&mut *outgoing)?;
            }
        }
        send(&outgoing)
    }

    /// Reads what can be decrypted, at least a byte; 0: the server has closed. `recv` is asked for more where that is needed.
    ///
    /// # Errors
    /// As `recv`; `InvalidData`: no TLS; `ConnectionAborted`: the server ends it, with its reason.
    pub fn open(&self, buffer: &mut [u8], mut recv: impl FnMut(&mut [u8]) -> io::Result<usize>) -> io::Result<usize> {
        let incoming = &mut *self.incoming.lock().expect("no holder panics");
        let mut ended = false;
        loop {
            {
                let mut connection = self.connection.lock().expect("no holder panics");
                match connection.reader().read(buffer) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    // Many servers close without a word of TLS: what a reply lacks is found by its length.
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                    read => return read,
                }
                if ended {
                    return Ok(0);
                }
                if incoming.at < incoming.end {
                    incoming.feed(&mut connection).map_err(|error| self.broken(&error))?;
                    continue;
                }
            }
            (incoming.at, incoming.end) = (0, 0);
            incoming.end = recv(&mut incoming.bytes)?;
            ended = incoming.end == 0;
        }
    }
}

impl Tls {
    /// What ended TLS behind the handshake. With TLS 1.3 a server looks at the client's certificate only then.
    fn broken(&self, error: &Error) -> io::Error {
        match error {
            Error::AlertReceived(alert) => {
                let what = about_identity(*alert, self.has_identity).map(|(what, hint)| format!("{what} ({hint})"));
                let what = what.unwrap_or_else(|| format!("alert {alert:?} of TLS"));
                io::Error::new(io::ErrorKind::ConnectionAborted, what)
            }
            error => io::Error::new(io::ErrorKind::InvalidData, format!("TLS: {}", shown(&error.to_string()))),
        }
    }
}

impl Client {
    /// Makes the handshake on a new connection.
    ///
    /// # Errors
    /// E137: a certificate that is not accepted, or no TLS at the other end.
    pub fn shake(&self, fd: BorrowedFd<'_>, patience: Duration, stop: &AtomicBool) -> Result<(Tls, Shaken), Problem> {
        let begin = clock::now();
        let failed = |why: String| {
            let what = format!("no TLS with {}", self.name.to_str());
            Problem::new("E137", Exit::CannotStart, what).why(why)
        };
        let mut connection = ClientConnection::new(Arc::clone(&self.config), self.name.clone())
            .map_err(|error| failed(error.to_string()))?;
        connection.set_buffer_limit(None);
        let (mut outgoing, mut incoming) = (Vec::new(), Incoming::new());
        while connection.is_handshaking() || connection.wants_write() {
            outgoing.clear();
            while connection.wants_write() {
                connection.write_tls(&mut outgoing).map_err(|error| failed(error.to_string()))?;
            }
            write(fd, &outgoing).map_err(|error| failed(format!("the connection broke in the handshake: {error}")))?;
            if !connection.is_handshaking() {
                break;
            }
            if incoming.at == incoming.end {
                incoming.at = 0;
                incoming.end = self.more(fd, &mut incoming.bytes, begin + patience.as_nanos() as u64, stop)?;
            }
            if let Err(error) = incoming.feed(&mut connection) {
                // The alert says why to the server.
                let mut alert = Vec::new();
                let _ = connection.write_tls(&mut alert);
                let _ = write(fd, &alert);
                return Err(self.problem(&error));
            }
        }
        let text = |text: Option<&'static str>| text.unwrap_or_default().to_owned();
        let shaken = Shaken {
            ns: clock::now() - begin,
            version: text(connection.protocol_version().and_then(|version| version.as_str()))
                .replace("TLSv", "TLS ")
                .replace('_', "."),
            cipher: text(connection.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str()))
                .replace("TLS13_", "TLS_"),
            alpn: connection.alpn_protocol().map_or_else(String::new, |name| shown_bytes(name, 32)),
            resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
        };
        let (connection, outgoing, incoming) = (Mutex::new(connection), Mutex::new(outgoing), Mutex::new(incoming));
        Ok((Tls { connection, outgoing, incoming, has_identity: self.has_identity }, shaken))
    }

    /// More of what the server says in the handshake.
    fn more(&self, fd: BorrowedFd<'_>, buffer: &mut [u8], until: u64, stop: &AtomicBool) -> Result<usize, Problem> {
        let failed = |why: &str, hint: &str| {
            let what = format!("no TLS with {}: {why}", self.name.to_str());
            Problem::new("E137", Exit::CannotStart, what).hint(hint)
        };
        let broken = |error: io::Error| failed(&format!("the connection broke in the handshake ({error})"), "");
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(failed("interrupted", ""));
            }
            if poll(fd, Interest::Read, LOOK_MS).map_err(broken)? {
                return match msg::recv(fd, buffer).map_err(broken)? {
                    0 => Err(failed("the server closed the connection in the handshake", "a port that speaks TLS")),
                    got => Ok(got),
                };
            }
            if clock::now() > until {
                return Err(failed("the server is silent", "a port that speaks TLS, or a larger --connect-timeout"));
            }
        }
    }

    /// What failed in a handshake, in words, and what to do.
    fn problem(&self, error: &Error) -> Problem {
        let name = self.name.to_str();
        let (what, hint) = match error {
            Error::InvalidCertificate(error) => certificate(error),
            Error::InvalidMessage(_) => {
                ("what it says is not TLS".into(), "a port that speaks TLS; http:// or redis:// without it")
            }
            Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
                ("it does not speak the protocol that was asked for".into(), "without --http2")
            }
            Error::AlertReceived(AlertDescription::UnrecognisedName) => {
                ("it serves no site of this name".into(), "the name that its certificate has")
            }
            Error::AlertReceived(AlertDescription::ProtocolVersion) | Error::PeerIncompatible(_) => {
                ("it speaks no version or cipher that is safe: TLS 1.2 and 1.3 are spoken".into(), "a newer server")
            }
            Error::AlertReceived(alert) => match about_identity(*alert, self.has_identity) {
                Some((what, hint)) => (what.into(), hint),
                None => (format!("it refuses the handshake (alert {alert:?})"), "its log"),
            },
            error => (shown(&error.to_string()).into_owned(), ""),
        };
        Problem::new("E137", Exit::CannotStart, format!("no TLS with {name}: {what}"))
            .why(shown(&error.to_string()))
            .hint(hint)
    }
}

/// What an alert says of the client's certificate, and what to do; `None`: it is about something else.
fn about_identity(alert: AlertDescription, has_one: bool) -> Option<(&'static str, &'static str)> {
    use AlertDescription as Alert;
    Some(match (alert, has_one) {
        (Alert::CertificateRequired | Alert::AccessDenied | Alert::BadCertificate, false) => {
            ("it wants a certificate of the client", "--cert FILE --cert-key FILE")
        }
        (Alert::CertificateExpired, true) => ("the client's certificate has expired", "a new one, or the clock there"),
        (
            Alert::UnknownCA
            | Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateUnknown
            | Alert::CertificateRevoked
            | Alert::AccessDenied
            | Alert::DecryptError,
            true,
        ) => ("it does not accept the client's certificate", "--cert of an authority that the server trusts"),
        _ => return None,
    })
}

/// What is wrong with a certificate, and what to do.
fn certificate(error: &CertificateError) -> (String, &'static str) {
    const OTHERWISE: &str = "--cacert FILE with the certificate that signed it; --insecure-tls checks nothing";
    match error {
        CertificateError::UnknownIssuer => {
            ("its certificate is signed by none that this machine or --cacert trusts".into(), OTHERWISE)
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => (
            "its certificate has expired".into(),
            "a new certificate there, or the clock here: date; --insecure-tls checks nothing",
        ),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            ("its certificate is not valid yet".into(), "the clock here: date; --insecure-tls checks nothing")
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => (
            "its certificate is for another name".into(),
            "the name that the certificate has, in the target; --insecure-tls checks nothing",
        ),
        CertificateError::Revoked => ("its certificate was revoked".into(), "a new certificate there"),
        CertificateError::BadSignature => {
            ("its certificate has a wrong signature".into(), "--cacert FILE may be an older one of the same name")
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            ("its certificate is not for servers".into(), "a certificate with extendedKeyUsage = serverAuth there")
        }
        CertificateError::Other(error) if error.to_string().contains("CaUsedAsEndEntity") => (
            "its certificate is that of an authority (CA:TRUE), which no server may show".into(),
            "a certificate with basicConstraints = CA:FALSE there; --insecure-tls checks nothing",
        ),
        error => (format!("its certificate is not accepted ({})", shown(&error.to_string())), OTHERWISE),
    }
}

/// The roots that are trusted: those of `--cacert` alone, else this machine's.
fn roots(order: &TlsOrder) -> Result<RootCertStore, Problem> {
    let mut roots = RootCertStore::empty();
    if let Some(pem) = &order.roots {
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let added = certificate.map_err(|error| error.to_string());
            let added = added.and_then(|der| roots.add(der).map_err(|error| error.to_string()));
            added.map_err(|error| no_roots(&format!("--cacert: {error}")))?;
        }
        return match roots.is_empty() {
            true => Err(no_roots("--cacert has no certificate (-----BEGIN CERTIFICATE-----)")),
            false => Ok(roots),
        };
    }
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    match roots.is_empty() {
        true => Err(no_roots("this machine has no certificates of authorities (package ca-certificates)")),
        false => Ok(roots),
    }
}

/// What checks the server's certificate.
fn verifier(order: &TlsOrder, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, Problem> {
    if order.checks == Checks::Nothing {
        return Ok(Arc::new(Lenient { provider, signature: None }));
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots(order)?), Arc::clone(&provider)).build();
    let verifier = verifier.map_err(|error| no_roots(&error.to_string()))?;
    Ok(match order.checks {
        Checks::Signature => Arc::new(Lenient { provider, signature: Some(verifier) }),
        _ => verifier,
    })
}

impl Identity {
    /// Certificates and key as rustls takes them.
    fn parsed(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Problem> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(self.certificates.as_bytes()).collect();
        let chain = chain.map_err(|error| no_identity(&format!("--cert: {error}")))?;
        if chain.is_empty() {
            return Err(no_identity("--cert has no certificate (-----BEGIN CERTIFICATE-----)"));
        }
        // What is wrong with a key is not said in the words of who has read it: they might show a part of it.
        let Secret(key) = &self.key;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| match key.contains("ENCRYPTED") {
            true => no_identity("the private key is encrypted")
                .hint("openssl pkey -in KEY -out PLAIN, and --cert-key PLAIN"),
            false => no_identity(
                "there is no private key (-----BEGIN PRIVATE KEY-----) in --cert-key, or in --cert without it",
            ),
        })?;
        Ok((chain, key))
    }
}

fn no_identity(why: &str) -> Problem {
    Problem::new("E137", Exit::CannotStart, "no certificate of the client to show".to_owned())
        .why(shown(why))
        .hint("--cert FILE and --cert-key FILE, in PEM")
}

fn no_roots(why: &str) -> Problem {
    Problem::new("E137", Exit::CannotStart, "no certificate of an authority to trust".to_owned())
        .why(shown(why))
        .hint("--cacert FILE, in PEM")
}

fn write(fd: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match msg::send(fd, bytes, SendFlags::default()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            sent => bytes = &bytes[sent?..],
        }
    }
    Ok(())
}

/// Takes every certificate, as `--insecure-tls` asks, or one of any name that is signed as it should be; the server must still own the
/// one that it shows.
#[derive(Debug)]
struct Lenient {
    provider: Arc<CryptoProvider>,
    /// What checks who signed it.
    signature: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(signature) = &self.signature else { return Ok(ServerCertVerified::assertion()) };
        // The name is looked at last, when all else is right.
        match signature.verify_server_cert(certificate, between, name, ocsp, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            checked => checked,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(all(test, feature = "tls-tests"))]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::thread::JoinHandle;

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use rcgen::{
        BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, date_time_ymd,
    };
    use rustls::server::WebPkiClientVerifier;
    use rustls::{ServerConfig, ServerConnection, StreamOwned};

    use super::*;

    /// An authority, and what is to be trusted of it.
    struct Authority {
        issuer: Issuer<'static, KeyPair>,
        pem: String,
    }

    fn pem(der: &[u8]) -> String {
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", STANDARD.encode(der))
    }

    fn authority() -> Authority {
        named("authority")
    }

    fn named(name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = pem(params.self_signed(&key).unwrap().der());
        Authority { issuer: Issuer::new(params, key), pem }
    }

    /// How a server is to be: its certificate, what it speaks.
    struct Serves {
        certificate: CertificateDer<'static>,
        key: KeyPair,
        protocol: Option<&'static str>,
        /// It wants a certificate of each client, of one of these authorities.
        clients: Option<RootCertStore>,
    }

    impl Authority {
        fn signs(&self, change: impl FnOnce(&mut CertificateParams)) -> Serves {
            let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
            let mut params = CertificateParams::new(names).unwrap();
            change(&mut params);
            let key = KeyPair::generate().unwrap();
            let certificate = params.signed_by(&key, &self.issuer).unwrap().der().clone();
            Serves { certificate, key, protocol: None, clients: None }
        }
    }

    /// Answers `times` connections with what they say, and ends.
    fn serve(serves: Serves, times: usize) -> (std::net::SocketAddr, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let key = PrivateKeyDer::Pkcs8(serves.key.serialize_der().into());
        let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let builder = match serves.clients {
            None => builder.with_no_client_auth(),
            Some(roots) => {
                let provider = Arc::new(default_provider());
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.with_client_cert_verifier(verifier.unwrap())
            }
        };
        let mut config = builder.with_single_cert(vec![serves.certificate], key).unwrap();
        config.alpn_protocols = serves.protocol.iter().map(|name| name.as_bytes().to_vec()).collect();
        let config = Arc::new(config);
        let work = move || {
            for _ in 0..times {
                let (stream, _) = listener.accept().unwrap();
                let mut stream = StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream);
                let mut buffer = vec![0; 100_000];
                while let Ok(got @ 1..) = stream.read(&mut buffer) {
                    if stream.write_all(&buffer[..got]).is_err() {
                        break;
                    }
                }
            }
        };
        (address, std::thread::spawn(work))
    }

    fn order(roots: &str) -> TlsOrder {
        let (name, roots) = ("localhost".into(), Some(roots.to_owned()));
        TlsOrder { name, roots, checks: Checks::All, identity: None, protocol: None }
    }

    /// Connects as an order says.
    fn shake(client: &Client, address: std::net::SocketAddr) -> Result<(Tls, Shaken, TcpStream), Problem> {
        let stream = TcpStream::connect(address).unwrap();
        let made = client.shake(stream.as_fd(), Duration::from_secs(600), &AtomicBool::new(false));
        made.map(|(tls, shaken)| (tls, shaken, stream))
    }

    /// Sends bytes there and back.
    fn echo(tls: &Tls, stream: &TcpStream, message: &[u8]) -> Vec<u8> {
        tls.seal(message, |sealed| write(stream.as_fd(), sealed)).unwrap();
        let (mut all, mut buffer) = (Vec::new(), vec![0; 70_000]);
        while all.len() < message.len() {
            let got = tls.open(&mut buffer, |sealed| msg::recv(stream.as_fd(), sealed)).unwrap();
            assert!(got > 0, "closed after {}", all.len());
            all.extend_from_slice(&buffer[..got]);
        }
        all
    }

    #[test]
    fn bytes_cross_and_the_handshake_is_described() {
        let authority = authority();
        let serves = Serves { protocol: Some("h2"), ..authority.signs(|_| {}) };
        let (address, server) = serve(serves, 2);
        for name in ["localhost", "127.0.0.1"] {
            let order = TlsOrder { name: name.into(), protocol: Some("h2".into()), ..order(&authority.pem) };
            let (tls, shaken, stream) = shake(&Tls::client(&order).unwrap(), address).unwrap();
            assert_eq!((shaken.version.as_str(), shaken.alpn.as_str(), shaken.resumed), ("TLS 1.3", "h2", false));
            assert!(shaken.cipher.starts_with("TLS_") && shaken.ns > 0, "{shaken:?}");
            for bytes in [1, 100, 16_384, 16_385, 300_000] {
                let message: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
                // The server's reads are shorter than the message, and its buffers are too: a part at a time.
                for part in message.chunks(50_000) {
                    assert!(echo(&tls, &stream, part) == part, "{bytes}");
                }
            }
            drop(stream);
        }
        server.join().unwrap();
    }

    #[test]
    fn later_connections_resume_a_session() {
        let authority = authority();
        let (address, server) = serve(authority.signs(|_| {}), 2);
        let client = Tls::client(&order(&authority.pem)).unwrap();
        let resumed = [0; 2].map(|_| {
            let (tls, shaken, stream) = shake(&client, address).unwrap();
            // The ticket comes with the first reply.
            echo(&tls, &stream, b"hello");
            shaken.resumed
        });
        assert_eq!(resumed, [false, true]);
        server.join().unwrap();
    }

    /// Faults of certificates, with what is said of each.
    #[test]
    fn faults_of_certificates_are_named() {
        let (ours, other) = (authority(), named("another"));
        let own = |change: fn(&mut CertificateParams)| ours.signs(change);
        let cases: [(Serves, &str, &str); 6] = [
            (other.signs(|_| {}), "signed by none that this machine or --cacert trusts", "--cacert FILE"),
            (own(|params| params.not_after = date_time_ymd(2001, 1, 1)), "has expired", "date"),
            (own(|params| params.not_before = date_time_ymd(2900, 1, 1)), "is not valid yet", "date"),
            (
                own(|params| {
                    params.subject_alt_names =
                        CertificateParams::new(vec!["b.example".into()]).unwrap().subject_alt_names
                }),
                "is for another name",
                "the name that the certificate has",
            ),
            (
                own(|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth]),
                "is not for servers",
                "serverAuth",
            ),
            (
                own(|params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained)),
                "that of an authority (CA:TRUE)",
                "CA:FALSE",
            ),
        ];
        for (serves, said, advice) in cases {
            let (address, server) = serve(serves, 2);
            let problem = shake(&Tls::client(&order(&ours.pem)).unwrap(), address).map(|_| ()).unwrap_err();
            assert_eq!((problem.code.as_str(), problem.exit), ("E137", Exit::CannotStart), "{problem}");
            assert!(problem.what.contains(said) && problem.hint.contains(advice), "{said}: {problem}");
            // Unchecked, each is taken.
            let unchecked = TlsOrder { checks: Checks::Nothing, roots: None, ..order("") };
            let (tls, _, stream) = shake(&Tls::client(&unchecked).unwrap(), address).unwrap();
            echo(&tls, &stream, b"hello");
            drop((tls, stream));
            server.join().unwrap();
        }
    }

    #[test]
    fn name_of_a_certificate_counts_unless_only_its_signature_does() {
        let (ours, other) = (authority(), named("another"));
        let elsewhere = |authority: &Authority| {
            authority.signs(|params| {
                params.subject_alt_names = CertificateParams::new(vec!["b.example".into()]).unwrap().subject_alt_names;
            })
        };
        for (serves, taken) in [(elsewhere(&ours), true), (elsewhere(&other), false)] {
            let (address, server) = serve(serves, 1);
            let order = TlsOrder { checks: Checks::Signature, ..order(&ours.pem) };
            assert_eq!(shake(&Tls::client(&order).unwrap(), address).is_ok(), taken);
            server.join().unwrap();
        }
    }

    /// A certificate that an authority gave a client.
    fn identity(authority: &Authority) -> Identity {
        let signed = authority.signs(|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth]);
        let key = STANDARD.encode(signed.key.serialize_der());
        let key = format!("-----BEGIN PRIVATE KEY-----\n{key}\n-----END PRIVATE KEY-----\n");
        Identity { certificates: pem(&signed.certificate), key: Secret::new(key) }
    }

    #[test]
    fn a_client_shows_its_certificate_where_it_is_wanted() {
        let (ours, other) = (authority(), named("another"));
        let roots = || {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(ours.pem.as_bytes()).unwrap()).unwrap();
            Some(roots)
        };
        for (identity, said) in [
            (Some(identity(&ours)), ""),
            (None, "it wants a certificate of the client (--cert FILE --cert-key FILE)"),
            (Some(identity(&other)), "it does not accept the client's certificate"),
        ] {
            let (address, server) = serve(Serves { clients: roots(), ..ours.signs(|_| {}) }, 1);
            let order = TlsOrder { identity, ..order(&ours.pem) };
            let (tls, _, stream) = shake(&Tls::client(&order).unwrap(), address).unwrap();
            if said.is_empty() {
                assert_eq!(echo(&tls, &stream, b"hello"), b"hello");
            } else {
                // With TLS 1.3 the server says so when the client has gone on.
                let error = tls.open(&mut [0; 99], |sealed| msg::recv(stream.as_fd(), sealed)).unwrap_err();
                assert!(
                    error.kind() == io::ErrorKind::ConnectionAborted && error.to_string().contains(said),
                    "{error}"
                );
            }
            drop((tls, stream));
            server.join().unwrap();
        }
    }

    #[test]
    fn certificates_of_a_client_that_are_none_are_refused_and_no_key_is_shown() {
        let authority = authority();
        let good = identity(&authority);
        let with = |certificates: &str, key: &str| {
            let identity = Identity { certificates: certificates.into(), key: Secret::new(key.into()) };
            Tls::client(&TlsOrder { identity: Some(identity), ..order(&authority.pem) }).map(|_| ()).unwrap_err()
        };
        let key = &good.key.0;
        let encrypted = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
        for (problem, said) in [
            (with("", key), "--cert has no certificate"),
            (with(&good.certificates, ""), "there is no private key"),
            (with(&good.certificates, &key.replace('M', "!")), "there is no private key"),
            (with(&good.certificates, &encrypted), "the private key is encrypted"),
            (with(&good.certificates, &identity(&authority).key.0), "not that of the certificate"),
        ] {
            let text = format!("{problem} {problem:?}");
            assert!(problem.code == "E137" && text.contains(said) && !text.contains(&key[40..80]), "{said}: {text}");
        }
        assert!(!format!("{good:?}").contains(&key[40..80]));
    }

    #[test]
    fn what_speaks_no_tls_is_named() {
        let authority = authority();
        let client = Tls::client(&order(&authority.pem)).unwrap();
        let replies: [(&[u8], &str); 3] = [
            (b"HTTP/1.1 400 Bad Request\r\n\r\n", "what it says is not TLS"),
            (b"-ERR Protocol error\r\n", "what it says is not TLS"),
            (b"", "closed the connection in the handshake"),
        ];
        for (reply, said) in replies {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let server = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 4096]);
                stream.write_all(reply).unwrap();
            });
            let problem = shake(&client, address).map(|_| ()).unwrap_err();
            assert!(problem.to_string().contains(said), "{problem}");
            server.join().unwrap();
        }
        let serves = Serves { protocol: Some("http/1.1"), ..authority.signs(|_| {}) };
        let (address, server) = serve(serves, 1);
        let order = TlsOrder { protocol: Some("h2".into()), ..order(&authority.pem) };
        let problem = shake(&Tls::client(&order).unwrap(), address).map(|_| ()).unwrap_err();
        assert!(problem.what.contains("does not speak the protocol") && problem.hint.contains("--http2"), "{problem}");
        server.join().unwrap();
    }

    #[test]
    fn roots_that_are_none_are_refused() {
        for bad in ["", "hello", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            let problem = Tls::client(&order(bad)).map(|_| ()).unwrap_err();
            assert!(problem.code == "E137" && problem.hint.contains("PEM"), "{problem}");
        }
        let problem = Tls::client(&TlsOrder { name: "a b".into(), ..order(&authority().pem) }).map(|_| ()).unwrap_err();
        assert!(problem.what.contains("no name of a certificate"), "{problem}");
    }
}
