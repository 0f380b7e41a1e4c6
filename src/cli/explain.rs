//! `restmark explain`: the requests a read would begin with, what of its query the API answers, and what is left.

use super::args::ExplainArgs;
use super::console::Console;
use super::{describe, open};
use crate::config::TableConfig;
use crate::error::Result;
use crate::filter::Predicate;
use crate::plan::{Plan, Sent};
use crate::source::Source;

/// The most partitions that are shown.
const SHOWN: usize = 20;

pub(super) async fn run(args: ExplainArgs, console: &mut Console) -> Result<()> {
    let ExplainArgs { of, query } = args;
    let source = open(&of.config, console)?;
    let mut scan = source.table(&of.table)?.scan();
    if let Some(select) = &query.select {
        scan = scan.select(select);
    }
    if let Some(filter) = query.filter.as_deref() {
        let filter = Predicate::parse(filter)?;
        if let Some(schema) = source.table(&of.table)?.schema() {
            filter.check(&schema.arrow()).map_err(|error| error.with("table", &of.table))?;
        }
        scan = scan.filter(filter);
    }
    if let Some(limit) = query.limit {
        scan = scan.limit(limit);
    }
    let plan = source.draft(if query.full { scan.full() } else { scan }).await?;
    let table = source.table(&of.table)?.config();
    let mut lines = vec![of.table.clone()];
    lines.extend(requests(&source, &plan, table)?);
    lines.push(format!("  paging      {}", describe::paging(&table.pagination)));
    lines.extend(pushed(&plan));
    if let Some(select) = &query.select {
        lines.push(format!("  columns     {}; what no column needs is not decoded", select.join(", ")));
    }
    if let Some(limit) = query.limit {
        lines.push(match plan.residual() {
            None => format!("  limit       {limit}: no larger page is asked for, the walk stops there; nothing moves"),
            Some(_) => format!("  limit       {limit} of the rows that are left: pages keep their size; nothing moves"),
        });
    }
    if table.checkpoint.is_some() {
        let start = plan.start().map_or_else(|| "the beginning".to_owned(), ToString::to_string);
        lines.push(format!("  starts at   {start}"));
    }
    lines.push(format!("  guarantee   {}", describe::guarantee(table)));
    lines.extend(describe::outputs(table).into_iter().map(|(output, holds)| format!("  {output:<10}  {holds}")));
    for warning in plan.warnings() {
        lines.push(format!("  note        {warning}"));
    }
    console.print(&lines.join("\n"))
}

/// The first request of each partition; before them, those that lead to its keys.
fn requests(source: &Source, plan: &Plan, table: &TableConfig) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    let mut at = table;
    while let Some(child) = &at.child {
        let parent = source.table(&child.parent)?.config();
        let how = describe::slices(at).unwrap_or_default();
        lines.push(format!("  parent      {} ({} {}): {how}", parent.name, parent.method.as_str(), parent.url));
        at = parent;
    }
    let partitions = plan.partitions();
    if partitions.len() != 1 || partitions[0].id() != "all" {
        lines.push(format!("  partitions  {}", partitions.len()));
    }
    for partition in partitions.iter().take(SHOWN) {
        let request = source.first_request(partition)?;
        lines.push(match partition.id() {
            "all" => format!("  asks        {request}"),
            id => format!("  asks        {request}   [{id}]"),
        });
    }
    if let Some(more) = partitions.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        lines.push(format!("              and {more} more"));
    }
    Ok(lines)
}

/// What of the query is sent, and what is left.
fn pushed(plan: &Plan) -> Vec<String> {
    let pushdown = plan.pushdown();
    let sent = pushdown.sent.iter().map(|sent| {
        let Sent { predicate, param, values, .. } = sent;
        let by = if sent.by_partition { "picks the partition" } else { "sent as" };
        let values: Vec<String> = values.iter().map(|value| format!("{param}={value}")).collect();
        let check = if sent.exact { "the API's answer counts" } else { "checked again" };
        format!("  pushed      {predicate}: {by} {}; {check}", values.join(", "))
    });
    let left =
        pushdown.left.iter().map(|(predicate, why)| format!("  left        {predicate}: {why}; the engine applies it"));
    sent.chain(left).collect()
}
