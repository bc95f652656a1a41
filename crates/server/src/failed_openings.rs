//! Why clients could not connect, in the log.
//!
//! A client that does not trust the certificate tells its user little: in Direct mode it tries for half a minute and then speaks of an
//! unavailable service. It says the reason to the server, as an alert of TLS. Anybody can make handshakes fail, so one of them is told now
//! and then.

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
    told: AtomicU64,
}

impl FailedOpenings {
    pub fn new(clock: Clock) -> FailedOpenings {
        FailedOpenings { clock, told: AtomicU64::new(NEVER) }
    }

    /// A TLS handshake failed. Told only where the client gave a reason that its user can do something about.
    pub fn tell_of_handshake(&self, error: &io::Error) {
        let Some(reason) = distrust(error) else { return };
        if self.may_tell() {
            tracing::warn!(
                ?reason,
                "a client ended the TLS handshake: it does not trust the server's certificate, or the name that it calls is not in it; have it trust DATA/tls/ca.pem (docs/connect.md)"
            );
        }
    }

    pub fn tell_of_protocol(&self, version: u32) {
        if self.may_tell() {
            tracing::warn!(
                version,
                "a client speaks a version of Direct mode that is not supported: use gateway mode"
            );
        }
    }

    fn may_tell(&self) -> bool {
        let now = self.clock.elapsed().as_millis() as u64 + 1;
        let told = self.told.load(Ordering::Relaxed);
        let is_time = told == NEVER || now.saturating_sub(told) >= APART.as_millis() as u64;
        is_time && self.told.compare_exchange(told, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
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
    fn a_certificate_that_is_not_trusted_is_told_and_nothing_else() {
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
        assert!(failed.may_tell());
        assert!(!failed.may_tell());
        clock.advance(APART - Duration::from_millis(1));
        assert!(!failed.may_tell());
        clock.advance(Duration::from_millis(1));
        assert!(failed.may_tell());
    }
}
