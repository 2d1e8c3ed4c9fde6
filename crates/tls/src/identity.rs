//! Who the far end of an encrypted layer is: a certificate made for one offer, which the near end is told over the control channel
//! and trusts alone. Nothing of it is kept.

use std::io;
use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// The name in the certificate.
pub const NAME: &str = "msgpath.invalid";
/// The longest certificate that is taken from an offer, bytes. One of ours has some 400.
pub const LONGEST: usize = 4096;

/// A key and its certificate.
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Clone for Identity {
    fn clone(&self) -> Self {
        Self { certificate: self.certificate.clone(), key: self.key.clone_key() }
    }
}

impl Identity {
    /// A new one, ECDSA over P-256.
    ///
    /// # Errors
    /// No random numbers.
    pub fn new() -> io::Result<Self> {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).map_err(io::Error::other)?;
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        Ok(Self { certificate: made.cert.der().clone(), key })
    }

    /// What the near end must know to trust it.
    pub fn trust(&self) -> Trust {
        Trust(self.certificate.clone())
    }

    /// How the far end speaks TLS 1.3.
    ///
    /// # Errors
    /// A key that the library does not take.
    pub fn server(self, protocols: &[&[u8]]) -> io::Result<Arc<ServerConfig>> {
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()));
        let config = config.with_protocol_versions(&[&TLS13]).map_err(io::Error::other)?;
        let config = config.with_no_client_auth().with_single_cert(vec![self.certificate], self.key);
        let mut config = config.map_err(io::Error::other)?;
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Ok(Arc::new(config))
    }
}

/// The one certificate that a near end trusts. Written in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust(CertificateDer<'static>);

impl Trust {
    /// The certificate (DER).
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// How the near end speaks TLS 1.3.
    ///
    /// # Errors
    /// What was offered is no certificate.
    pub fn client(self, protocols: &[&[u8]]) -> io::Result<Arc<ClientConfig>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let config = config.with_protocol_versions(&[&TLS13]).map_err(io::Error::other)?;
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Ok(Arc::new(config))
    }
}

/// A certificate that an end sent (DER): whether it is one shows when it is used.
impl From<Vec<u8>> for Trust {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl std::fmt::Display for Trust {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::str::FromStr for Trust {
    type Err = io::Error;

    fn from_str(text: &str) -> io::Result<Self> {
        let digits = text.as_bytes();
        let value = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
        let byte = |pair: &[u8]| Some(value(*pair.first()?)? << 4 | value(*pair.get(1)?)?);
        let fits = (1..=2 * LONGEST).contains(&digits.len());
        let bytes: Option<Vec<u8>> = if fits { digits.chunks(2).map(byte).collect() } else { None };
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "the offer has no certificate");
        bytes.map(|bytes| Self(bytes.into())).ok_or_else(invalid)
    }
}

/// [`NAME`] as TLS takes it.
pub fn name() -> ServerName<'static> {
    ServerName::try_from(NAME).expect("a well-formed name")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_certificate_crosses_as_text() {
        let trust = Identity::new().unwrap().trust();
        assert_eq!(trust.to_string().parse::<Trust>().unwrap(), trust);
        assert!(trust.client(&[]).is_ok());
    }

    #[test]
    fn each_offer_has_a_key_of_its_own() {
        assert_ne!(Identity::new().unwrap().trust(), Identity::new().unwrap().trust());
    }

    proptest! {
        #[test]
        fn whatever_a_far_end_offers_is_an_error_or_harmless(text in "[0-9a-f]{0,200}|.{0,40}") {
            // No certificate is made of chance: what can be read as bytes is refused as a certificate.
            if let Ok(trust) = text.parse::<Trust>() {
                prop_assert!(trust.client(&[]).is_err());
            }
        }
    }
}
