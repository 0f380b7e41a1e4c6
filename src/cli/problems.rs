//! A problem of a configuration with the line it stands on (R11), unless a secret might stand there too (R23).

use std::fs;

use crate::error::Problem;
use crate::secret::names_a_secret;

/// The problem and, below it, the line of the file.
pub(super) fn render(problem: &Problem) -> String {
    match source_line(problem) {
        Some((number, line)) => format!("{problem}\n  {number:>4} | {}", cut(line.trim_end())),
        None => problem.to_string(),
    }
}

/// A file without line breaks must not fill the screen.
fn cut(line: &str) -> &str {
    line.char_indices().nth(160).map_or(line, |(at, _)| &line[..at])
}

fn source_line(problem: &Problem) -> Option<(usize, String)> {
    let (file, number) = (problem.file.as_ref()?, problem.line?);
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().nth(number.checked_sub(1)?)?;
    (!may_hold_a_secret(&problem.key) && !may_hold_a_secret(line)).then(|| (number, line.to_owned()))
}

/// A misspelt key may be followed by a credential, so whole blocks are left out.
fn may_hold_a_secret(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    names_a_secret(&text)
        || ["auth", "header", "hadoop", "param", "body", "@", "?", "fs."].iter().any(|w| text.contains(w))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(key: &str, line: usize, text: &str) -> (tempfile::TempDir, Problem) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.conf");
        fs::write(&file, text).unwrap();
        (dir, Problem { key: key.into(), message: "unknown key".into(), file: Some(file), line: Some(line) })
    }

    #[test]
    fn r11_the_line_is_shown_below_the_problem() {
        let (_dir, problem) = problem("tables.t.datapath", 2, "tables { t {\n    datapath = \"/x\"\n");
        let said = render(&problem);
        assert!(said.contains("a.conf:2: tables.t.datapath: unknown key\n     2 |     datapath = \"/x\""), "{said}");
    }

    #[test]
    fn r23_a_line_that_may_hold_a_secret_is_not_shown() {
        for (key, text) in [
            ("auth.tokn", "tokn = \"s3cret\""),
            ("http.max", "auth { x = \"s3cret\" }, http { max = 1 }"),
            ("base-url", "base-url = \"https://u:s3cret@h\""),
            ("http.headers.x", "x = \"s3cret\""),
        ] {
            let (_dir, problem) = problem(key, 1, text);
            assert!(!render(&problem).contains("s3cret"), "{key}");
        }
    }
}
