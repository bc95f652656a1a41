//! SCRAM (RFC 5802, RFC 7677): the credential that a server stores instead of a password, and the proof that a client knows the password.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::mechanism::Mechanism;
use crate::errors::Result;

/// Stored credential for a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    pub stored_key: Vec<u8>,
    pub server_key: Vec<u8>,
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("what is kept of a password")
    }
}

impl Credential {
    /// Costs some milliseconds of processor time, on purpose.
    pub fn derive(mechanism: Mechanism, user: &str, password: &str, salt: &[u8]) -> Result<Credential> {
        let password = mechanism.prepare(user, password)?;
        Ok(Credential::of_prepared(mechanism, &password, salt, mechanism.iterations()))
    }

    fn of_prepared(mechanism: Mechanism, password: &[u8], salt: &[u8], iterations: u32) -> Credential {
        let salted = mechanism.derive(password, salt, iterations);
        let client_key = mechanism.mac(&salted, b"Client Key");
        Credential {
            stored_key: mechanism.digest(&client_key),
            server_key: mechanism.mac(&salted, b"Server Key"),
        }
    }
}

/// A client's first message.
#[derive(Debug, PartialEq, Eq)]
pub struct ClientFirst {
    pub user: String,
    /// As the client has to repeat it, in base64.
    header: String,
    nonce: String,
    /// Without the header.
    bare: String,
}

impl ClientFirst {
    /// `None` for an invalid first message. Channel binding and authorization as another user are not supported, so both are invalid.
    pub fn parse(payload: &[u8]) -> Option<ClientFirst> {
        let text = std::str::from_utf8(payload).ok()?;
        let mut parts = text.splitn(3, ',');
        let (binding, acting_for, bare) = (parts.next()?, parts.next()?, parts.next()?);
        if !matches!(binding, "n" | "y") {
            return None;
        }
        let mut fields = bare.split(',');
        let user = unescape(fields.next()?.strip_prefix("n=")?)?;
        let nonce = fields.next()?.strip_prefix("r=")?;
        if nonce.is_empty() || !nonce.bytes().all(|byte| (0x21..=0x7E).contains(&byte)) {
            return None;
        }
        if !acting_for.is_empty() && unescape(acting_for.strip_prefix("a=")?)? != user {
            return None;
        }
        let header = STANDARD.encode(format!("{binding},{acting_for},"));
        Some(ClientFirst { user, header, nonce: nonce.to_owned(), bare: bare.to_owned() })
    }
}

/// `=2C` is a comma and `=3D` an equals sign, and nothing else begins with `=`.
fn unescape(name: &str) -> Option<String> {
    let mut parts = name.split('=');
    let mut plain = parts.next()?.to_owned();
    for part in parts {
        let (character, rest) = match part.get(..2)? {
            "2C" => (',', &part[2..]),
            "3D" => ('=', &part[2..]),
            _ => return None,
        };
        plain.push(character);
        plain.push_str(rest);
    }
    (!plain.is_empty()).then_some(plain)
}

/// The server's state between its two answers.
#[derive(Debug)]
pub struct Exchange {
    mechanism: Mechanism,
    header: String,
    nonce: String,
    /// The messages that both sides sign, except the client's last one.
    signed: String,
}

impl Exchange {
    /// The exchange, and the server's first answer.
    pub fn begin(
        mechanism: Mechanism,
        first: &ClientFirst,
        server_nonce: &str,
        salt: &[u8],
        iterations: u32,
    ) -> (Exchange, String) {
        let nonce = format!("{}{server_nonce}", first.nonce);
        let answer = format!("r={nonce},s={},i={iterations}", STANDARD.encode(salt));
        let signed = format!("{},{answer},", first.bare);
        (Exchange { mechanism, header: first.header.clone(), nonce, signed }, answer)
    }

    /// The place of the credential that the client has proved, and the server's last answer; `None` if the proof matches no credential.
    pub fn finish(&self, payload: &[u8], credentials: &[Credential]) -> Option<(usize, String)> {
        let text = std::str::from_utf8(payload).ok()?;
        let (unproved, proof) = text.rsplit_once(",p=")?;
        let mut fields = unproved.split(',');
        let header = fields.next()?.strip_prefix("c=")?;
        let nonce = fields.next()?.strip_prefix("r=")?;
        if header != self.header || nonce != self.nonce {
            return None;
        }
        let proof = STANDARD.decode(proof).ok()?;
        let message = format!("{}{unproved}", self.signed);
        // All are tried, so that the duration reveals nothing.
        let proved = credentials.iter().enumerate().filter(|(_, credential)| {
            let signature = self.mechanism.mac(&credential.stored_key, message.as_bytes());
            let client_key: Vec<u8> = signature.iter().zip(&proof).map(|(a, b)| a ^ b).collect();
            let is_long_enough = proof.len() == signature.len();
            is_long_enough & are_same(&self.mechanism.digest(&client_key), &credential.stored_key)
        });
        let (place, credential) = proved.fold(None, |_, found| Some(found))?;
        let verifier = self.mechanism.mac(&credential.server_key, message.as_bytes());
        Some((place, format!("v={}", STANDARD.encode(verifier))))
    }
}

/// In a time that does not depend on where they differ.
fn are_same(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len() && left.iter().zip(right).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Example of RFC 5802, whose password is not hashed first.
    #[test]
    fn the_exchange_of_rfc_5802_comes_out_as_written() {
        let salt = STANDARD.decode("QSXCR+Q6sek8bf92").expect("base64");
        let credential = Credential::of_prepared(Mechanism::Sha1, b"pencil", &salt, 4096);
        let first = ClientFirst::parse(b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL").expect("an opening");
        let (exchange, answer) = Exchange::begin(Mechanism::Sha1, &first, "3rfcNHYJY1ZVvWVs7j", &salt, 4096);
        assert_eq!(answer, "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096");
        let last = b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=";
        let (place, verifier) = exchange.finish(last, &[credential]).expect("proved");
        assert_eq!((place, verifier.as_str()), (0, "v=rmF9pqV8S7suAoZWja4dJRkFsKQ="));
    }

    /// Example of RFC 7677.
    #[test]
    fn the_exchange_of_rfc_7677_comes_out_as_written() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64");
        let credential = Credential::of_prepared(Mechanism::Sha256, b"pencil", &salt, 4096);
        let first = ClientFirst::parse(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO").expect("an opening");
        let (exchange, answer) =
            Exchange::begin(Mechanism::Sha256, &first, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", &salt, 4096);
        assert_eq!(
            answer,
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        );
        let last = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                     p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        let other = Credential { stored_key: vec![1; 32], server_key: vec![2; 32] };
        let (place, verifier) = exchange.finish(last, &[other.clone(), credential]).expect("proved");
        assert_eq!((place, verifier.as_str()), (1, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        assert!(exchange.finish(last, &[other]).is_none(), "another password");
    }

    #[test]
    fn a_changed_nonce_or_header_proves_nothing() {
        let credential = Credential { stored_key: vec![1; 20], server_key: vec![2; 20] };
        let first = ClientFirst::parse(b"y,,n=user,r=abc").expect("an opening");
        let (exchange, _) = Exchange::begin(Mechanism::Sha1, &first, "def", b"salt", 4096);
        for wrong in [
            "c=eSws,r=abc,p=AAAA",
            "c=biws,r=abcdef,p=AAAA",
            "c=eSws,r=abcdef",
            "",
            "p=",
            "c=eSws,r=abcdef,p=?",
        ] {
            assert!(
                exchange.finish(wrong.as_bytes(), std::slice::from_ref(&credential)).is_none(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn openings_that_cannot_be_served_are_none() {
        let user = |text: &str| ClientFirst::parse(text.as_bytes()).map(|first| first.user);
        assert_eq!(user("n,,n=a=2Cb=3Dc,r=x").as_deref(), Some("a,b=c"));
        assert_eq!(user("n,a=me,n=me,r=x").as_deref(), Some("me"));
        for wrong in [
            "",
            "n",
            "n,,",
            "p=tls-unique,,n=a,r=x",
            "n,,n=a",
            "n,,n=a,r=",
            "n,,n=,r=x",
            "n,,n=a=2b,r=x",
            "n,,n=a=,r=x",
            "n,a=other,n=me,r=x",
            "n,,m=ext,n=a,r=x",
            "x,,n=a,r=x",
            "n,,n=a,r=a b",
        ] {
            assert_eq!(user(wrong), None, "{wrong}");
        }
        assert!(ClientFirst::parse(&[0xFF, 0xFE]).is_none());
    }
}
