//! Log of the reasons why clients could not connect.
//!
//! The error of a client that does not trust the certificate is misleading: in Direct mode it comes after half a minute and is about an
//! unavailable service. The server receives the reason, as an alert of TLS. Handshakes can be made to fail on purpose, so that the
//! log has only one of them per period.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustls::AlertDescription;
use shardlake_stdx::Clock;

/// Time between two lines.
const APART: Duration = Duration::from_secs(10);
const NEVER: u64 = 0;

pub struct FailedOpenings {
    clock: Clock,
    /// Milliseconds of [`Clock::elapsed`] at the last line, and one more.
    logged: AtomicU64,
}

impl FailedOpenings {
    pub fn new(clock: Clock) -> FailedOpenings {
        FailedOpenings { clock, logged: AtomicU64::new(NEVER) }
    }

    /// A TLS handshake failed. It is logged where the client's reason is the certificate.
    pub fn log_handshake(&self, error: &io::Error) {
        let Some(reason) = distrust(error) else { return };
        if self.is_due() {
            tracing::warn!(
                ?reason,
                "a client ended the TLS handshake: it does not trust the server's certificate, or the name that it calls is not in it; have it trust DATA/tls/ca.pem (docs/connect.md)"
            );
        }
    }

    pub fn log_protocol(&self, version: u32) {
        if self.is_due() {
            tracing::warn!(
                version,
                "a client speaks a version of Direct mode that is not supported: use gateway mode"
            );
        }
    }

    fn is_due(&self) -> bool {
        let now = self.clock.elapsed().as_millis() as u64 + 1;
        let logged = self.logged.load(Ordering::Relaxed);
        let is_time = logged == NEVER || now.saturating_sub(logged) >= APART.as_millis() as u64;
        is_time && self.logged.compare_exchange(logged, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// The client's reason, where it is about the certificate.
fn distrust(error: &io::Error) -> Option<AlertDescription> {
    let rustls::Error::AlertReceived(alert) = error.get_ref()?.downcast_ref::<rustls::Error>()? else {
        return None;
    };
    matches!(
        alert,
        AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
    )
    .then_some(*alert)
}

#[cfg(test)]
mod tests {
    use shardlake_stdx::Timestamp;

    use super::*;

    fn alert(reason: AlertDescription) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, rustls::Error::AlertReceived(reason))
    }

    #[test]
    fn a_certificate_that_is_not_trusted_is_logged_and_nothing_else() {
        let reasons = [AlertDescription::UnknownCA, AlertDescription::CertificateUnknown];
        for reason in reasons {
            assert_eq!(distrust(&alert(reason)), Some(reason));
        }
        assert_eq!(distrust(&alert(AlertDescription::CloseNotify)), None);
        assert_eq!(distrust(&io::ErrorKind::UnexpectedEof.into()), None);
    }

    #[test]
    fn a_storm_of_failures_is_a_line_now_and_then() {
        let clock = Clock::manual(Timestamp(5));
        let failed = FailedOpenings::new(clock.clone());
        assert!(failed.is_due());
        assert!(!failed.is_due());
        clock.advance(APART - Duration::from_millis(1));
        assert!(!failed.is_due());
        clock.advance(Duration::from_millis(1));
        assert!(failed.is_due());
    }
}
