//! The one number of a document that answers an aggregate.

use jsonptr::Pointer;

use super::Scalar;
use super::decoder::{stopped, text_of};
use super::envelope::scalar_at;
use crate::error::{Error, ErrorKind, Result};

/// The text of the number, or numeric text, at a place of a document.
///
/// # Errors
/// Kind `Decode`, naming the place, where something else stands there, or nothing.
pub fn number_at(body: &[u8], path: &Pointer) -> Result<String> {
    let text = text_of(body, 0)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let found = scalar_at(text, path).map_err(|halt| stopped(halt, text, "the body"))?;
    let said = match found {
        Scalar::Number(text) => return Ok(text),
        Scalar::Text(text) if serde_json::from_str::<serde_json::Number>(&text).is_ok() => return Ok(text),
        Scalar::Text(text) => format!("{text:?}"),
        Scalar::Bool(value) => value.to_string(),
        Scalar::Structure(text) => text,
        Scalar::Absent => "nothing, or null".to_owned(),
    };
    Err(Error::new(ErrorKind::Decode, format!("response-path {path} is no number: {said}")))
}

#[cfg(test)]
mod tests {
    use jsonptr::PointerBuf;

    use super::*;

    #[test]
    fn r24_an_answer_keeps_its_digits_and_anything_but_a_number_is_an_error() {
        let at = |body: &str, path: &str| number_at(body.as_bytes(), &PointerBuf::parse(path).unwrap());
        assert_eq!(at(r#"{"a":[{"n":9007199254740993.0}]}"#, "/a/0/n").unwrap(), "9007199254740993.0");
        assert_eq!(at("\u{feff}17", "").unwrap(), "17");
        assert_eq!(at(r#"{"n":"12.50","m":1}"#, "/n").unwrap(), "12.50");
        for body in [r#"{"n":null}"#, "{}", "[]", r#"{"n":"many"}"#, r#"{"n":true}"#, r#"{"n":{"n":1}}"#, r#"{"n":""}"#]
        {
            let error = at(body, "/n").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Decode);
            assert!(error.to_string().contains("response-path /n"), "{error}");
        }
        assert!(at("<html>", "/n").unwrap_err().to_string().contains("is not JSON"));
        assert!(at(r#"{"n":1,"n":2}"#, "/n").unwrap_err().to_string().contains("twice"));
    }
}
