//! Why a store refused, in one line: its own code and sentence, and what people usually have to mend.

use std::error::Error as _;

use hdfs_native::HdfsError;
use object_store::Error as ObjectError;

use crate::secret::REDACTED;
use crate::text::{cut, one_line};

/// So much of an answer that is no known error document is shown.
const SHOWN: usize = 300;

/// The length of a word that may be a token.
const TOKEN: usize = 32;

/// Codes of S3, Google and Azure that say more to those who know them than to those who don't.
const HINTS: &[(&[&str], &str)] = &[
    (
        &["RequestTimeTooSkewed"],
        "the clock of this machine and the store's differ by more than the store allows: set the clock",
    ),
    (&["ExpiredToken", "TokenRefreshRequired"], "the credentials have expired: get new ones"),
    (&["InvalidAccessKeyId", "InvalidClientTokenId"], "the store does not know this access key"),
    (&["SignatureDoesNotMatch"], "the secret key does not belong to the access key, or a proxy changed the request"),
    (&["AuthenticationFailed"], "the account key or the signature is wrong or has expired, or a clock is off"),
    (&["NoSuchBucket", "ContainerNotFound"], "the bucket or container does not exist: create it, it is not made here"),
    (
        &["AccessDenied", "AllAccessDisabled", "AuthorizationFailure", "AuthorizationPermissionMismatch"],
        "the credentials lack the right to do this; on S3 an object that is missing answers so too where listing the \
         bucket is not allowed",
    ),
    (
        &["PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"],
        "the bucket lives in another region: set it",
    ),
];

/// Whether an object is certainly not there: the store says so by name. A missing bucket, or a 404 of a server that is no
/// store, is an error and never a first run (R6).
pub(crate) fn is_absent(error: &ObjectError) -> bool {
    let text = whole(error);
    let by_name = || element(&text, "Code").is_some_and(|code| matches!(code, "NoSuchKey" | "BlobNotFound"));
    // What is not the answer of a server is the store's own word.
    matches!(error, ObjectError::NotFound { .. }) && (!text.contains("status code") || by_name())
}

/// Why an object store refused. `scrub` removes known secrets; what else may be one is blanked: a store may echo tokens
/// that were fetched on the way and that nobody here knows (R23).
pub(crate) fn of_object(error: &ObjectError, scrub: impl Fn(&str) -> String) -> String {
    let text = blanked(&scrub(&whole(error)));
    if let Some(code) = element(&text, "Code") {
        // Azure adds a request id and the time on further lines.
        let message = element(&text, "Message").and_then(|m| m.lines().next()).unwrap_or_default();
        let hint = HINTS.iter().find(|(codes, _)| codes.contains(&code)).map(|(_, hint)| *hint);
        let parts = [Some(code), Some(message.trim()).filter(|m| !m.is_empty()), hint];
        return cut(&one_line(&parts.into_iter().flatten().collect::<Vec<_>>().join(": ")), 2 * SHOWN);
    }
    if text.contains("without LOCATION") {
        return "the store redirects without saying where: the region is wrong".to_owned();
    }
    // What stands last names the cause; what stands before it repeats where.
    let mut last: &dyn std::error::Error = error;
    while let Some(next) = last.source() {
        last = next;
    }
    let last = blanked(&scrub(&last.to_string()));
    let said = last.split_once("status code: ").map_or(last.as_str(), |(_, answer)| answer);
    cut(one_line(said).trim_end_matches([':', ' ']), SHOWN)
}

/// Why HDFS refused.
pub(crate) fn of_hdfs(error: &HdfsError) -> String {
    let said = match error {
        HdfsError::RPCError(class, message) | HdfsError::FatalRPCError(class, message) => {
            let class = class.rsplit('.').next().unwrap_or(class);
            // A stack trace follows the sentence.
            format!("{class}: {}", message.lines().next().unwrap_or_default())
        }
        HdfsError::DataTransferError(said) if said.starts_with("All DataNodes failed") => {
            "no DataNode that should hold the file's blocks gives them".to_owned()
        }
        HdfsError::GSSAPIError(_, _, said) => format!("Kerberos: {said}"),
        HdfsError::NoSASLMechanism => {
            "the cluster wants an authentication that is not set up here: hadoop.security.authentication = kerberos \
             and a ticket (kinit) or a keytab"
                .to_owned()
        }
        other => other.to_string(),
    };
    cut(&one_line(&said), SHOWN)
}

/// The text without words that look like tokens: long, of the letters of base64 and URLs, digits among them.
fn blanked(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '_' | '-' | '.' | '%' | '~');
    let is_token = |word: &str| {
        word.len() >= TOKEN
            && word.contains(|c: char| c.is_ascii_digit())
            && !word.contains("//")
            && !word.starts_with('/')
    };
    let mut out = String::with_capacity(text.len());
    for word in text.split_inclusive(|c| !is_part(c)) {
        let end = word.trim_end_matches(|c| !is_part(c)).len();
        out.push_str(if is_token(&word[..end]) { REDACTED } else { &word[..end] });
        out.push_str(&word[end..]);
    }
    out
}

/// An error and everything that it says caused it.
fn whole(error: &ObjectError) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push('\n');
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

/// The text of the first element of this name in an XML document.
fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn not_found(body: &str) -> ObjectError {
        ObjectError::NotFound { path: "p".into(), source: format!("status code: 404 Not Found: {body}").into() }
    }

    #[test]
    fn r06_only_a_missing_object_is_absent() {
        assert!(is_absent(&not_found("<Error><Code>NoSuchKey</Code></Error>")));
        assert!(is_absent(&not_found("<Error><Code>BlobNotFound</Code><Message>x</Message></Error>")));
        for body in ["<Error><Code>NoSuchBucket</Code></Error>", "<html>404</html>", "", "ContainerNotFound"] {
            assert!(!is_absent(&not_found(body)), "{body}");
        }
    }

    #[test]
    fn a_refusal_is_one_line_with_the_stores_own_words_and_what_to_do() {
        let skew = "<Error><Code>RequestTimeTooSkewed</Code><Message>The difference is too large.</Message></Error>";
        let error = ObjectError::PermissionDenied { path: "p".into(), source: skew.into() };
        let said = of_object(&error, str::to_owned);
        assert!(said.starts_with("RequestTimeTooSkewed: The difference is too large.: the clock"), "{said}");
        let said = of_object(&not_found("<html>\nno such page"), str::to_owned);
        assert!(said.starts_with("404 Not Found: <html> no such page"), "{said}");
        let echo = "<Error><Code>InvalidToken</Code><Message>Bearer eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJhIn0 in /a/b</Message></Error>";
        let error = ObjectError::PermissionDenied { path: "p".into(), source: echo.into() };
        assert_eq!(of_object(&error, str::to_owned), "InvalidToken: Bearer *** in /a/b");
        let said = of_hdfs(&HdfsError::RPCError("org.a.QuotaExceededException".into(), "too much\n\tat x.y".into()));
        assert_eq!(said, "QuotaExceededException: too much");
    }
}
