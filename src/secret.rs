//! Secrets: values that never print, and the redactor that removes them from every text (R23).

use std::fmt;
use std::sync::{Arc, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What stands in a text where a secret was.
pub const REDACTED: &str = "***";

/// A credential. `Debug` is redacted; there is no `Display` and no `Serialize` on purpose.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a credential.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The credential itself, for the one place that puts it on the wire.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// Whether a header of this name carries a credential (R17): authorization, `x-auth`, cookie, `*key*`, `*token*`, `*secret*`.
pub fn names_a_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.split(['-', '_', '.']).any(|word| matches!(word, "auth" | "authorization"))
        || ["cookie", "key", "token", "secret", "password"].iter().any(|word| name.contains(word))
}

/// How percent-encoders differ in what they leave alone.
const ENCODINGS: [&AsciiSet; 7] = {
    const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    const FORM: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'*');
    const COMPONENT: &AsciiSet = &UNRESERVED.remove(b'!').remove(b'*').remove(b'\'').remove(b'(').remove(b')');
    const PATH: &AsciiSet = &UNRESERVED.remove(b'/');
    const QUERY: &AsciiSet = &PATH.remove(b'=').remove(b':').remove(b'@');
    const LOOSE: &AsciiSet = &QUERY.remove(b'+');
    [NON_ALPHANUMERIC, UNRESERVED, FORM, COMPONENT, PATH, QUERY, LOOSE]
};

/// Every form in which an API may echo a secret.
fn forms_of(raw: &str) -> Vec<String> {
    let mut forms = vec![raw.to_owned()];
    for set in ENCODINGS {
        let quoted = utf8_percent_encode(raw, set).to_string();
        forms.push(utf8_percent_encode(&quoted, set).to_string());
        forms.push(lower_hex(&quoted));
        forms.push(quoted.replace("%20", "+"));
        forms.push(quoted);
    }
    if let Ok(quoted) = serde_json::to_string(raw) {
        let quoted = quoted[1..quoted.len() - 1].to_owned();
        forms.push(quoted.replace('/', "\\/"));
        forms.push(quoted);
    }
    let each = |escape: &dyn Fn(char) -> String| -> String {
        raw.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_string() } else { escape(c) }).collect()
    };
    forms.push(each(&|c| format!("\\u{:04x}", c as u32)));
    forms.push(each(&|c| format!("\\u{:04X}", c as u32)));
    forms.push(each(&|c| format!("&#{};", c as u32)));
    forms.push(each(&|c| format!("&#x{:x};", c as u32)));
    forms.push(each(&|c| match c {
        '&' => "&amp;".into(),
        '<' => "&lt;".into(),
        '>' => "&gt;".into(),
        '"' => "&quot;".into(),
        '\'' => "&#x27;".into(),
        c => c.to_string(),
    }));
    for engine in [STANDARD, URL_SAFE] {
        let text = engine.encode(raw);
        forms.push(text.trim_end_matches('=').to_owned());
        // Inside a longer encoded text the secret may begin at any of three bit offsets.
        for lead in 1..3 {
            let shifted = engine.encode([&b"\0\0"[..lead], raw.as_bytes()].concat());
            let (from, to) = (lead + 1, shifted.trim_end_matches('=').len().saturating_sub(1));
            if to.saturating_sub(from) >= TELLING {
                forms.push(shifted[from..to].to_owned());
            }
        }
    }
    forms
}

/// Removes every known secret from a text: raw, percent-encoded, JSON-escaped and in base64.
///
/// Clones share what they know, so a token fetched later is scrubbed everywhere.
#[derive(Clone, Default)]
pub struct Redactor {
    needles: Arc<RwLock<Vec<String>>>,
}

/// Shorter texts are no credentials, and scrubbing them would tear ordinary words apart.
const SHORTEST: usize = 4;

/// So many characters of a secret are told apart from chance: the beginning of one is scrubbed too, since texts are
/// cut, and only such a secret is looked for in a position.
const TELLING: usize = 8;

impl Redactor {
    /// Adds a secret and all its forms.
    pub fn learn(&self, secret: &Secret) {
        let raw = secret.expose();
        if raw.len() < SHORTEST {
            return;
        }
        if let Ok(mut needles) = self.needles.write() {
            for form in forms_of(raw) {
                if !needles.contains(&form) {
                    needles.push(form);
                }
            }
            // Longest first, so that no form is torn by a shorter one inside it.
            needles.sort_by_key(|needle| std::cmp::Reverse(needle.len()));
        }
    }

    /// The text without any secret, and without the beginning of one that was cut.
    pub fn scrub(&self, text: &str) -> String {
        let mut out = text.to_owned();
        let Ok(needles) = self.needles.read() else { return REDACTED.to_owned() };
        for needle in needles.iter().filter(|needle| text.contains(needle.as_str())) {
            out = out.replace(needle.as_str(), REDACTED);
        }
        for needle in needles.iter().filter(|needle| needle.len() > TELLING) {
            let Some(start) = needle.get(..TELLING) else { continue };
            while let Some(at) = out.find(start) {
                let same = out[at..].chars().zip(needle.chars()).take_while(|(a, b)| a == b);
                let length: usize = same.map(|(c, _)| c.len_utf8()).sum();
                out.replace_range(at..at + length, REDACTED);
            }
        }
        out
    }

    /// Whether a secret that is long enough to tell stands in the text in any form.
    pub fn finds(&self, text: &str) -> bool {
        let told = |needle: &&String| needle.len() >= TELLING && text.contains(needle.as_str());
        self.needles.read().is_ok_and(|needles| needles.iter().any(|needle| told(&needle)))
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor")
    }
}

fn lower_hex(quoted: &str) -> String {
    let mut out = String::with_capacity(quoted.len());
    let mut hex = 0;
    for c in quoted.chars() {
        out.push(if hex > 0 { c.to_ascii_lowercase() } else { c });
        hex = if c == '%' { 2 } else { i32::max(hex - 1, 0) };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r23_every_form_of_a_secret_is_scrubbed() {
        let redactor = Redactor::default();
        redactor.learn(&Secret::new("S3CR3T/x+y=="));
        for text in [
            "S3CR3T/x+y==",
            "S3CR3T%2Fx%2By%3D%3D",
            "S3CR3T%2fx%2by%3d%3d",
            "S3CR3T/x%2By%3D%3D",
            "UzNDUjNUL3greT09",
            &STANDARD.encode("user:S3CR3T/x+y=="),
            &STANDARD.encode("u:S3CR3T/x+y=="),
            "S3CR3T%252Fx%252By%253D%253D",
            "S3CR3T\\/x+y==",
            "S3CR3T\\u002fx\\u002by\\u003d\\u003d",
            "S3CR3T&#47;x&#43;y&#61;&#61;",
            "S3CR3T/x",
        ] {
            let said = redactor.scrub(&format!("a {text} b"));
            assert!(said.contains(REDACTED) && !said.contains("S3CR3T"), "{text} became {said}");
        }
        assert_eq!(redactor.scrub("nothing here"), "nothing here");
        let short = Redactor::default();
        short.learn(&Secret::new("12345"));
        assert!(!short.finds("offset 12345"), "too short to tell from chance");
        assert!(redactor.finds("c=S3CR3T%2Fx%2By%3D%3D"));
        assert_eq!(format!("{:?}", Secret::new("abc")), "Secret(***)");
    }

    #[test]
    fn r17_header_names_that_carry_credentials_are_known() {
        for name in ["Authorization", "Cookie", "X-Api-Key", "x-auth-token", "Client-Secret", "X-Auth"] {
            assert!(names_a_secret(name), "{name}");
        }
        assert!(!names_a_secret("Accept") && !names_a_secret("X-Author"));
    }
}
