//! The order of the house, checked: who may import whom, first lines, and a test for every rule.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The rooms from the ground up; a file may use rooms of its own line and of those above it.
const ROOMS: [&str; 15] = [
    "error secret position counts effect disk text integrity column",
    "storage openapi",
    "config",
    "schema",
    "filter",
    "plan",
    "fetch",
    "decode",
    "paginate",
    "read",
    "commit",
    "source",
    "sink verify epoch gather rows receipts run stream fuzz",
    "sql",
    "cli",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below a folder, as (path from the root of the project, text).
fn rust_files(folder: &str) -> Vec<(PathBuf, String)> {
    let (mut found, mut folders) = (vec![], vec![root().join(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((path.strip_prefix(root()).unwrap().to_owned(), text));
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "no Rust files in {folder}");
    found
}

/// The height of a room, ground floor first.
fn height(room: &str) -> Option<usize> {
    ROOMS.iter().position(|line| line.split(' ').any(|name| name == room))
}

/// The room a file of `src/` belongs to; `lib.rs` and `main.rs` belong to none.
fn room_of(path: &Path) -> Option<String> {
    let first = path.components().nth(1)?.as_os_str().to_str()?;
    let room = first.strip_suffix(".rs").unwrap_or(first);
    (room != "lib" && room != "main").then(|| room.to_owned())
}

/// What the code of a file names after `crate::`; comments and the tests at its end do not count.
fn names_of_the_crate(text: &str) -> BTreeSet<String> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let code: String = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let mut names = BTreeSet::new();
    for part in code.split("crate::").skip(1) {
        let word = |text: &str| text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        match part.strip_prefix('{') {
            None => {
                names.insert(word(part));
            }
            Some(group) => {
                // The heads of `{a::{b, c}, d}`: what stands at depth zero.
                let (mut depth, mut at_head) = (0, true);
                for (i, c) in group.char_indices() {
                    if depth == 0 && at_head && !c.is_whitespace() {
                        names.insert(word(&group[i..]));
                        at_head = false;
                    }
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => at_head = true,
                        _ => {}
                    }
                }
            }
        }
    }
    names.remove("");
    names
}

/// The room behind each name that `lib.rs` re-exports.
fn exports(lib: &str) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    for statement in lib.split("pub use ").skip(1).filter_map(|rest| rest.split_once(';')).map(|(head, _)| head) {
        let statement = statement.trim().trim_start_matches("crate::");
        let room = statement.split("::").next().unwrap_or_default();
        for name in statement[room.len()..].split(|c: char| !c.is_alphanumeric() && c != '_') {
            exports.insert(name.to_owned(), room.to_owned());
        }
    }
    exports
}

#[test]
fn a_file_imports_only_rooms_above_its_own() {
    let exports = exports(&std::fs::read_to_string(root().join("src/lib.rs")).unwrap());
    let mut wrong = vec![];
    for (path, text) in rust_files("src") {
        let Some(own) = room_of(&path) else { continue };
        let Some(own_height) = height(&own) else {
            wrong.push(format!("{}: the room {own} is not in the list of this test", path.display()));
            continue;
        };
        for name in names_of_the_crate(&text) {
            let room = exports.get(&name).unwrap_or(&name);
            if height(room).is_none_or(|height| height > own_height) {
                wrong.push(format!("{}: {own} must not use {room}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn imports_are_found_in_every_form() {
    let text = "// crate::cli\nuse crate::error::Error;\nuse crate::{plan::{Plan, x::Y}, read};\nlet a = crate::config::load();\n#[cfg(test)]\nmod tests { use crate::sink; }";
    assert_eq!(names_of_the_crate(text).into_iter().collect::<Vec<_>>(), ["config", "error", "plan", "read"]);
    let exports = exports("pub mod read;\npub use read::{Event, Read};\npub use source::Source;");
    assert_eq!((exports["Event"].as_str(), exports["Source"].as_str()), ("read", "source"));
}

#[test]
fn every_file_begins_by_saying_what_it_is() {
    for folder in ["src", "tests", "fuzz/fuzz_targets"] {
        for (path, text) in rust_files(folder) {
            assert!(text.starts_with("//! "), "{} does not begin with `//! `", path.display());
        }
    }
}

/// The numbers after `R` in the headings of the rules.
fn rules() -> BTreeSet<u32> {
    let rules = std::fs::read_to_string(root().join("docs/semantics.md")).unwrap();
    let headings = rules.lines().filter(|line| line.starts_with('#'));
    let words = headings.flat_map(|line| line.split(|c: char| !c.is_alphanumeric()));
    words.filter_map(|word| word.strip_prefix('R')?.parse().ok()).collect()
}

/// The numbers `NN` of test functions named `rNN_...`.
fn tested() -> BTreeSet<u32> {
    let files = rust_files("src").into_iter().chain(rust_files("tests"));
    let text: String = files.map(|(_, text)| text).collect();
    // A name stands after `fn`, or before the colon in a list that a macro makes tests of.
    let names = text.lines().map(|line| line.trim_start().trim_start_matches("async ").trim_start_matches("fn "));
    names.filter_map(|line| line.strip_prefix('r')?.split_once('_')?.0.parse().ok()).collect()
}

#[test]
fn every_rule_has_a_test_that_bears_its_number() {
    let (rules, tested) = (rules(), tested());
    assert!(!rules.is_empty(), "docs/semantics.md has no headings with rule numbers");
    let untested: Vec<_> = rules.difference(&tested).map(|n| format!("R{n}")).collect();
    assert!(untested.is_empty(), "no test bears the number of {}", untested.join(", "));
}
