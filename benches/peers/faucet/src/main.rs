//! faucet-source-rest, cursor paging: pages as it streams them (JSON values), counted and summed.
//!
//! `restmark-peer-faucet BASE KIND PAGES ID SMALL AMOUNT` prints rows and sums as the other peers do.

use faucet_source_rest::{PaginationStyle, RestStream, RestStreamConfig};
use futures::StreamExt as _;
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [base, kind, pages, number, small, amount] = arguments.as_slice() else {
        return Err("BASE KIND PAGES ID SMALL AMOUNT".into());
    };
    let config = RestStreamConfig::new(base, &format!("/{kind}/cursor/{pages}/0/plain"))
        .records_path("$.data[*]")
        .pagination(PaginationStyle::Cursor { next_token_path: "$.next".into(), param_name: "cursor".into() })
        .max_pages(pages.parse()?);
    let stream = RestStream::new(config)?;
    let mut pages = stream.stream_pages();
    let (mut rows, mut ids, mut smalls, mut amounts) = (0, 0_i64, 0_i64, 0.0);
    while let Some(page) = pages.next().await {
        for record in page? {
            rows += 1;
            ids += record[number].as_i64().unwrap_or_default();
            smalls += record[small].as_i64().unwrap_or_default();
            amounts += record[amount].as_f64().unwrap_or_default();
        }
    }
    println!("{}", json!({ "rows": rows, "sums": [ids, smalls, (amounts * 100.0).round() as i64] }));
    Ok(())
}
