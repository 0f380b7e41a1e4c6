//! Errors on their way through DataFusion: ours come out as they went in, its own are the query's fault (exit code 2).

use datafusion::error::DataFusionError;

use crate::error::{Error, ErrorKind};

/// Packs an error of ours.
pub(super) fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// What went wrong in a query: our own error if it is one, however deep.
#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub fn into_error(error: DataFusionError) -> Error {
    let mut at: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(cause) = at {
        if let Some(ours) = cause.downcast_ref::<Error>() {
            return ours.copied();
        }
        at = cause.source();
    }
    let kind = match error.find_root() {
        DataFusionError::IoError(_) | DataFusionError::ObjectStore(_) => ErrorKind::Store,
        DataFusionError::Internal(_) | DataFusionError::ExecutionJoin(_) => ErrorKind::Bug,
        _ => ErrorKind::Scan,
    };
    Error::new(kind, error.strip_backtrace())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::error::ArrowError;

    use super::*;

    #[test]
    fn an_error_of_ours_keeps_its_kind_and_context_however_deep_it_is() {
        let ours = || external(Error::new(ErrorKind::Incomplete, "a page came twice").with("page", 3));
        for wrapped in [
            ours(),
            ours().context("while scanning"),
            DataFusionError::Shared(Arc::new(ours())),
            DataFusionError::ArrowError(Box::new(ArrowError::ExternalError(Box::new(ours()))), None),
            DataFusionError::Collection(vec![DataFusionError::Shared(Arc::new(ours().context("x")))]),
        ] {
            let error = into_error(wrapped);
            assert_eq!(
                (error.kind(), error.to_string().as_str()),
                (ErrorKind::Incomplete, "a page came twice (page: 3)")
            );
        }
        assert_eq!(into_error(DataFusionError::Plan("no column x".into())).kind().exit_code(), 2);
    }
}
