//! One plain HTTP request to a server on loopback.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::PATIENCE;

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

/// Asks `http://127.0.0.1:port` for a target. HTTP/1.0, so that the answer is one piece and ends with the connection.
pub(crate) fn ask(base: &str, method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    try_to_ask(base, method, target, headers, body).unwrap_or_else(|e| panic!("{method} {base}{target}: {e}"))
}

/// The same where nobody may be listening.
pub(crate) fn try_to_ask(
    base: &str,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> std::io::Result<Answer> {
    let address = base.strip_prefix("http://").expect("a base");
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut request = format!("{method} {target} HTTP/1.0\r\nHost: {address}\r\n");
    request.extend(headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")));
    // Only what has a body says how long it is.
    let length = format!("Content-Length: {}\r\n", body.len());
    let length = if body.is_empty() && method != "PUT" { "" } else { &length };
    stream.write_all(format!("{request}{length}\r\n{body}").as_bytes())?;
    let mut answer = vec![];
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(std::io::ErrorKind::UnexpectedEof)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or(std::io::ErrorKind::InvalidData)?;
    Ok(Answer { status, head: head.to_owned(), body: body.to_owned() })
}

impl Answer {
    /// The same answer, if it has this status.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}\n{}", self.head, self.body);
        self
    }

    /// A header, whatever the case of its name.
    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> &str {
        let mut lines = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        let line = lines.find(|(own, _)| own.eq_ignore_ascii_case(name));
        line.unwrap_or_else(|| panic!("no {name} in\n{}", self.head)).1.trim()
    }
}
