//! The `openapi` document at a URL: asked like a page, but only the API's own origin sees a credential (R17).

use std::sync::Arc;

use url::Url;

use super::auth::Authenticator;
use super::{Client, Response, Shared};
use crate::config::Method;
use crate::error::Result;
use crate::plan::Request;

impl Client {
    /// Fetches a document with the time-outs, retries and limits of a page.
    ///
    /// # Errors
    /// As [`Client::page`].
    pub async fn document(&self, url: &Url) -> Result<Response> {
        let request = Request { method: Method::Get, url: url.clone(), body: None, is_link: false };
        if self.guard.trusts(url) { self.page(&request).await } else { self.stranger().page(&request).await }
    }

    /// A client that has nothing to give away: neither credentials nor fixed headers, wherever it is sent on to.
    fn stranger(&self) -> Self {
        let shared = Shared {
            transport: Arc::clone(&self.shared.transport),
            auth: Authenticator::None,
            has_auth: false,
            http: self.shared.http.clone(),
            redactor: self.shared.redactor.clone(),
        };
        let mut guard = self.guard.clone();
        guard.has_credentials = false;
        Self { shared: Arc::new(shared), limiter: None, guard, fixed: Arc::default(), meter: Arc::default() }
    }
}
