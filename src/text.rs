//! Texts that an API wrote, made fit for a message: on one line, and no longer than it needs to be.

/// Control characters and line separators become spaces, so that no answer can forge a line of a log.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') { ' ' } else { c }).collect()
}

/// The first `max` characters, with `...` where there are more.
pub(crate) fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_an_api_stays_on_its_line_and_within_its_length() {
        assert_eq!(one_line("a\nb\u{1b}[31m\u{2028}c"), "a b [31m c");
        assert_eq!((cut("äöü", 3).as_str(), cut("äöü", 2).as_str(), cut("", 0).as_str()), ("äöü", "äö...", ""));
    }
}
