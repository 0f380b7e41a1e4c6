//! An endpoint that answers an aggregate is asked: one request, one number.

use std::sync::Arc;

use crate::config::{Aggregation, Method, TableConfig};
use crate::counts::Meter;
use crate::decode;
use crate::error::{Error, Result};
use crate::plan::Request;
use crate::plan::request::set_query;

use super::Source;

impl Source {
    /// What the endpoint of an aggregation answers: the text of a number, with all its digits.
    ///
    /// # Errors
    /// Kind `Decode`, naming the pointer, where no number stands there; and as any request.
    pub async fn ask(&self, table: &TableConfig, aggregation: &Aggregation, meter: &Arc<Meter>) -> Result<String> {
        let request = request(aggregation);
        let in_context = |error: Error| {
            let error = error
                .with("table", &table.name)
                .with("aggregation", &aggregation.name)
                .with("url", self.client.shown(&request.url));
            error.scrubbed(|text| self.redactor().scrub(text))
        };
        let client = self.client.for_read(&table.headers, Arc::clone(meter));
        let response = client.page(&request).await.map_err(in_context)?;
        decode::number_at(&response.body, &aggregation.response).map_err(in_context)
    }

    /// The request of an aggregation, as messages may show it.
    pub fn asked(&self, aggregation: &Aggregation) -> String {
        let request = request(aggregation);
        format!("{} {}", request.method.as_str(), self.client.shown(&request.url))
    }
}

fn request(aggregation: &Aggregation) -> Request {
    let mut url = aggregation.url.clone();
    set_query(&mut url, aggregation.params.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    Request { method: Method::Get, url, body: None, is_link: false }
}
