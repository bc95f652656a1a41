//! TLS: the certificate this server shows, and the authority that signed it.
//!
//! At first start the server makes itself an authority ("CA") and a certificate for the names it is known under, in `tls/`
//! of the data directory: `ca.pem` (public, also served at `/_shardlake/ca.pem`), `ca-key.pem` and `server-key.pem` (mode 0600),
//! `server.pem`, and `server.json` with the names and the end of its validity. A later start uses them again. When the
//! names change or the end is near, a new certificate is issued under the same authority, so that clients that
//! trust `ca.pem` keep working. Without a data directory everything lives in memory and is new at each start.
//!
//! A certificate is checked when the server starts; a server that runs for a year without a restart outlives its certificate.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use p12_keystore::{KeyStore, Pkcs12ImportPolicy};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use serde::{Deserialize, Serialize};
use shardlake_stdx::Timestamp;
use yasna::Tag;
use yasna::tags::TAG_UTCTIME;

use crate::config::{Config, TlsFiles, machine_name};
use crate::private_file::{self, Secrecy};

const PEM_BEGIN: &[u8] = b"-----BEGIN ";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const AUTHORITY_DAYS: u32 = 3650;
/// Clients refuse certificates that are valid for much longer than a year.
const SERVER_DAYS: u32 = 397;
const RENEW_DAYS: u32 = 60;
const AUTHORITY_NAME: &str = "Shardlake local authority";

/// The TLS configuration of connections.
pub struct Tls {
    pub server: Arc<ServerConfig>,
    /// The authority's certificate, to be trusted by clients; `None` with a certificate from outside.
    pub ca_pem: Option<String>,
    /// The certificate that clients of an emulator are to trust: the authority's, or the one from outside.
    pub trusted_pem: String,
    /// Where `ca_pem` lies.
    pub ca_file: Option<PathBuf>,
    /// A certificate from outside, which may be good for more names than are configured.
    pub certificate: Option<CertificateDer<'static>>,
    /// When the certificate expires; `None` for one from outside that cannot be parsed.
    pub ends: Option<Timestamp>,
}

/// The authority that signs certificates, for servers that are to be trusted as one. Both are PEM texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authority {
    certificate: String,
    key: String,
}

#[cfg(feature = "object-storage")]
impl Authority {
    /// That of a data directory, made where there is none.
    pub fn of(data_dir: &Path, now: Timestamp) -> Result<Authority, String> {
        let store = Store { directory: &data_dir.join("tls") };
        store.make_authority(now)?;
        Ok(Authority { certificate: store.read("ca.pem")?, key: store.read("ca-key.pem")? })
    }

    /// Makes it that of a data directory.
    pub fn put(&self, data_dir: &Path) -> Result<(), String> {
        Store { directory: &data_dir.join("tls") }.write_authority(self)
    }
}

/// The names and the end for which `server.pem` was issued: the contents of `server.json`.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
struct Issued {
    names: Vec<String>,
    /// Unix milliseconds.
    not_after: u64,
}

/// PEM texts of a generated set.
struct Generated {
    ca: String,
    certificate: String,
    key: String,
}

impl Tls {
    /// Whether the certificate that the configuration names can be served. Issues none.
    pub fn check(config: &Config) -> Result<(), String> {
        config.tls_files.as_ref().map_or(Ok(()), |files| from_files(files).map(|_| ()))
    }

    pub fn load(config: &Config, now: Timestamp) -> Result<Tls, String> {
        if let Some(files) = &config.tls_files {
            let (server, certificate) = from_files(files)?;
            let ends = ends_of(&certificate);
            return Ok(Tls {
                server,
                trusted_pem: pem_of(&certificate),
                ca_pem: None,
                ca_file: None,
                certificate: Some(certificate),
                ends,
            });
        }
        let names = known_names(config);
        let directory = config.data_dir.as_ref().map(|directory| directory.join("tls"));
        let generated = match &directory {
            Some(directory) => Store { directory }.load_or_issue(&names, now)?,
            None => {
                let (ca, ca_key) = new_authority(now)?;
                let (certificate, key) = issue(&ca_key, &names, now)?;
                Generated { ca, certificate, key }
            }
        };
        let ends = match &directory {
            Some(directory) => Store { directory }.ends(),
            None => None,
        };
        let ends = ends.unwrap_or_else(|| after(now, SERVER_DAYS));
        let (server, _known_names) = from_pem(generated.certificate.as_bytes(), generated.key.as_bytes())?;
        let ca_file = directory.map(|directory| directory.join("ca.pem"));
        let (ca_pem, trusted_pem) = (Some(generated.ca.clone()), generated.ca);
        Ok(Tls { server, ca_pem, trusted_pem, ca_file, certificate: None, ends: Some(ends) })
    }
}

/// Every name a client might use for this server, in a fixed order.
pub fn known_names(config: &Config) -> Vec<String> {
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
    let listening = config.listen.iter().map(|listen| listen.host.trim_matches(['[', ']']).to_owned());
    let wanted = config.tls_names.iter().cloned();
    for name in std::iter::once(machine_name()).chain(listening).chain(wanted) {
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The generated files of a data directory.
struct Store<'a> {
    directory: &'a Path,
}

impl Store<'_> {
    fn make_authority(&self, now: Timestamp) -> Result<(), String> {
        fs::create_dir_all(self.directory).map_err(|error| self.failed("", &error))?;
        if self.path("ca.pem").exists() && self.path("ca-key.pem").exists() {
            return Ok(());
        }
        let (ca, ca_key) = new_authority(now)?;
        self.write_authority(&Authority { certificate: ca, key: ca_key.serialize_pem() })
    }

    fn write_authority(&self, authority: &Authority) -> Result<(), String> {
        self.write("ca-key.pem", &authority.key, Secrecy::Secret)?;
        // A certificate of a lost authority must not be used again.
        let _none_is_fine = fs::remove_file(self.path("server.json"));
        self.write("ca.pem", &authority.certificate, Secrecy::Public)
    }

    fn load_or_issue(&self, names: &[String], now: Timestamp) -> Result<Generated, String> {
        self.make_authority(now)?;
        if !self.is_current(names, now) {
            let ca_key = KeyPair::from_pem(&self.read("ca-key.pem")?)
                .map_err(|error| self.failed("ca-key.pem", &error))?;
            let (certificate, key) = issue(&ca_key, names, now)?;
            let _none_is_fine = fs::remove_file(self.path("server.json"));
            self.write("server-key.pem", &key, Secrecy::Secret)?;
            self.write("server.pem", &certificate, Secrecy::Public)?;
            // Last: only with it does the certificate count.
            let issued = Issued { names: names.to_vec(), not_after: after(now, SERVER_DAYS).0 };
            let text = serde_json::to_string_pretty(&issued).expect("names and a number are valid JSON");
            self.write("server.json", &text, Secrecy::Public)?;
            tracing::info!(?names, "certificate issued");
        }
        Ok(Generated {
            ca: self.read("ca.pem")?,
            certificate: self.read("server.pem")?,
            key: self.read("server-key.pem")?,
        })
    }

    fn issued(&self) -> Option<Issued> {
        let text = fs::read_to_string(self.path("server.json")).unwrap_or_default();
        serde_json::from_str(&text).ok()
    }

    /// End of the certificate that was issued last.
    fn ends(&self) -> Option<Timestamp> {
        self.issued().map(|issued| Timestamp(issued.not_after))
    }

    fn is_current(&self, names: &[String], now: Timestamp) -> bool {
        self.issued()
            .is_some_and(|issued| issued.names == names && issued.not_after > after(now, RENEW_DAYS).0)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn read(&self, name: &str) -> Result<String, String> {
        fs::read_to_string(self.path(name)).map_err(|error| self.failed(name, &error))
    }

    fn write(&self, name: &str, text: &str, secrecy: Secrecy) -> Result<(), String> {
        private_file::write(&self.path(name), text.as_bytes(), secrecy)
            .map_err(|error| self.failed(name, &error))
    }

    fn failed(&self, name: &str, error: &dyn std::fmt::Display) -> String {
        format!("the certificate file '{}': {error}", self.path(name).display())
    }
}

/// An authority's certificate as PEM, and its key.
fn new_authority(now: Timestamp) -> Result<(String, KeyPair), String> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(failed)?;
    let certificate = authority_params(now).self_signed(&key).map_err(failed)?;
    Ok((certificate.pem(), key))
}

/// Parameters of the authority. Only the dates differ between starts: an issuer is known by its name and its key.
fn authority_params(now: Timestamp) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = distinguished_name(AUTHORITY_NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_validity(&mut params, now, AUTHORITY_DAYS);
    params
}

/// A certificate for `names` and its key, both as PEM.
fn issue(authority: &KeyPair, names: &[String], now: Timestamp) -> Result<(String, String), String> {
    let mut params = CertificateParams::new(names.to_vec())
        .map_err(|error| format!("a certificate for the names {names:?} cannot be made: {error}"))?;
    params.distinguished_name = distinguished_name("Shardlake");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    set_validity(&mut params, now, SERVER_DAYS);
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(failed)?;
    let issuer = Issuer::new(authority_params(now), authority);
    let certificate = params.signed_by(&key, &issuer).map_err(failed)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn distinguished_name(common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    name
}

fn set_validity(params: &mut CertificateParams, now: Timestamp, days: u32) {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    // A day of grace for clients whose clock is behind.
    params.not_before = epoch + Duration::from_millis(now.0).saturating_sub(DAY);
    params.not_after = epoch + Duration::from_millis(after(now, days).0);
}

/// When a certificate expires: the second time of its validity (RFC 5280, section 4.1).
fn ends_of(certificate: &CertificateDer<'_>) -> Option<Timestamp> {
    let ends = yasna::parse_der(certificate, |reader| {
        reader.read_sequence(|certificate| {
            let ends = certificate.next().read_sequence(|signed| {
                let _version =
                    signed.read_optional(|version| version.read_tagged(Tag::context(0), |v| v.read_der()))?;
                for _serial_algorithm_issuer in 0..3 {
                    signed.next().read_der()?;
                }
                let ends = signed.next().read_sequence(|validity| {
                    validity.next().read_der()?;
                    let ends = validity.next();
                    Ok(match ends.lookahead_tag()? {
                        TAG_UTCTIME => ends.read_utctime()?.datetime().unix_timestamp(),
                        _ => ends.read_generalized_time()?.datetime().unix_timestamp(),
                    })
                })?;
                while signed.read_optional(|rest| rest.read_der())?.is_some() {}
                Ok(ends)
            })?;
            for _algorithm_signature in 0..2 {
                certificate.next().read_der()?;
            }
            Ok(ends)
        })
    });
    Some(Timestamp(u64::try_from(ends.ok()?).ok()? * 1000))
}

fn after(now: Timestamp, days: u32) -> Timestamp {
    Timestamp(now.0 + (DAY * days).as_millis() as u64)
}

fn failed(error: rcgen::Error) -> String {
    format!("a certificate cannot be made: {error}")
}

fn from_files(files: &TlsFiles) -> Result<Served, String> {
    let read = |path: &Path| {
        fs::read(path).map_err(|error| format!("the TLS file '{}' cannot be read: {error}", path.display()))
    };
    match files {
        TlsFiles::Pem { certificate, key } => from_pem(&read(certificate)?, &read(key)?).map_err(|error| {
            format!("--tls-cert '{}' with --tls-key '{}': {error}", certificate.display(), key.display())
        }),
        TlsFiles::Bundle { file, secret } => {
            let bytes = read(file)?;
            let secret = secret.as_ref().map_or("", |secret| &secret.0);
            let is_pem = bytes.windows(PEM_BEGIN.len()).any(|window| window == PEM_BEGIN);
            let served = if is_pem { from_pem(&bytes, &bytes) } else { from_pkcs12(&bytes, secret) };
            served.map_err(|error| format!("the certificate of CERT_PATH, '{}': {error}", file.display()))
        }
    }
}

/// Certificates and key of a PKCS#12 file, as .NET and OpenSSL write it.
fn from_pkcs12(bytes: &[u8], secret: &str) -> Result<Served, String> {
    let store = KeyStore::from_pkcs12(bytes, secret, Pkcs12ImportPolicy::Relaxed);
    let store = store.map_err(|error| {
        format!("it is neither PEM nor PKCS#12 that the passphrase in CERT_SECRET opens ({error})")
    })?;
    let Some((_, entry)) = store.private_key_chain() else {
        return Err("it holds no private key with a certificate".into());
    };
    let chain = entry.certs().iter().map(|certificate| certificate.as_der().to_vec().into()).collect();
    served(chain, PrivatePkcs8KeyDer::from(entry.key().as_der().to_vec()).into())
}

/// A certificate as text, in lines of 64 characters.
fn pem_of(certificate: &CertificateDer<'_>) -> String {
    let text = STANDARD.encode(certificate);
    let lines = text.as_bytes().chunks(64).map(String::from_utf8_lossy);
    let lines = lines.collect::<Vec<_>>().join("\n");
    format!("-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n")
}

/// The configuration, and the certificate that it shows.
type Served = (Arc<ServerConfig>, CertificateDer<'static>);

fn from_pem(chain: &[u8], key: &[u8]) -> Result<Served, String> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("the certificate chain is not PEM: {error}"))?;
    let key =
        PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("the private key is not PEM: {error}"))?;
    served(chain, key)
}

fn served(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Served, String> {
    let Some(certificate) = chain.first().cloned() else {
        return Err("the certificate file holds no certificate".into());
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| format!("certificate and key do not fit: {error}"))?;
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok((Arc::new(server), certificate))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::settings::Settings;

    const NOW: Timestamp = Timestamp(1_800_000_000_000);

    fn config(directory: &Path, names: &[&str]) -> Config {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let settings =
            Settings { data_dir: Some(directory.to_owned()), tls_name: Some(names), ..Settings::default() };
        Config::new(settings).expect("valid")
    }

    fn certificate(directory: &Path) -> String {
        fs::read_to_string(directory.join("tls/server.pem")).expect("issued")
    }

    #[test]
    fn the_expiry_of_a_certificate_from_outside_is_known() {
        let directory = tempfile::tempdir().expect("a directory");
        let issued = Tls::load(&config(directory.path(), &[]), NOW).expect("issued");
        let path = |name: &str| directory.path().join("tls").join(name);
        let files = TlsFiles::Pem { certificate: path("server.pem"), key: path("server-key.pem") };
        let outside = Config { tls_files: Some(files), ..config(directory.path(), &[]) };
        let loaded = Tls::load(&outside, NOW).expect("read");
        assert_eq!(loaded.ends.map(Timestamp::seconds), issued.ends.map(Timestamp::seconds));
        assert!(loaded.ends > Some(NOW) && loaded.ca_pem.is_none());
    }

    #[test]
    fn certificates_are_used_again_until_names_change_or_the_end_is_near() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        let first = Tls::load(&config(path, &[]), NOW).expect("issued");
        let issued = certificate(path);
        Tls::load(&config(path, &[]), after(NOW, SERVER_DAYS - RENEW_DAYS - 1)).expect("read");
        assert_eq!(certificate(path), issued);

        let renamed = Tls::load(&config(path, &["db.example"]), NOW).expect("issued for the new name");
        assert_ne!(certificate(path), issued);
        assert_eq!(renamed.ca_pem, first.ca_pem, "the authority stays");
        let renamed = certificate(path);
        Tls::load(&config(path, &["db.example"]), after(NOW, SERVER_DAYS - RENEW_DAYS)).expect("renewed");
        assert_ne!(certificate(path), renamed);
        for secret in ["tls/ca-key.pem", "tls/server-key.pem"] {
            let mode = path.join(secret).metadata().expect("there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{secret}");
        }
    }

    #[test]
    fn a_certificate_from_outside_is_served_and_a_wrong_one_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        Tls::load(&config(path, &[]), NOW).expect("issued");
        let (own, key, other) =
            (path.join("tls/server.pem"), path.join("tls/server-key.pem"), path.join("tls/ca-key.pem"));
        let with = |certificate: &Path, key: &Path| {
            let files = TlsFiles::Pem { certificate: certificate.to_owned(), key: key.to_owned() };
            Tls::load(&Config { tls_files: Some(files), ..config(path, &[]) }, NOW)
        };
        assert_eq!(with(&own, &key).expect("fits").ca_pem, None);
        assert!(with(&own, &other).err().expect("another key").contains("--tls-cert"));
        assert!(with(&key, &key).err().expect("no certificate").contains("no certificate"));
        assert!(with(&path.join("none"), &key).err().expect("no file").contains("none"));
    }
}
