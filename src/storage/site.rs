//! Reads `core-site.xml` and `hdfs-site.xml`: names and values, `final`, includes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use roxmltree::{Document, Error, Node, ParsingOptions};

/// Files that one file may lead to, one inside the other.
const MAX_INCLUDES: usize = 10;
const XINCLUDE: &str = "http://www.w3.org/2001/XInclude";

/// The files of a Hadoop configuration, in order; one that is not there is no problem.
pub(super) fn read(dir: &Path) -> Result<BTreeMap<String, String>, String> {
    let mut site = Site::default();
    for name in ["core-site.xml", "hdfs-site.xml"] {
        let path = dir.join(name);
        if let Some(text) = text(&path)? {
            site.file(&path, &text, 0)?;
        }
    }
    Ok(site.properties)
}

#[derive(Default)]
struct Site {
    properties: BTreeMap<String, String>,
    finals: BTreeSet<String>,
}

impl Site {
    /// Messages name the file and the line, and show nothing of it: a value may be a credential (R23).
    fn file(&mut self, path: &Path, text: &str, depth: usize) -> Result<(), String> {
        // A document type is allowed, other files through it are not: there is `xi:include`.
        let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
        let document = Document::parse_with_options(text, options).map_err(|e| {
            let line = match e {
                // These know no place: it is the end.
                Error::UnclosedRootNode | Error::UnexpectedEndOfStream => text.lines().count(),
                e => e.pos().row as usize,
            };
            format!("{}:{line}: it is no well-formed XML", path.display())
        })?;
        let root = document.root_element();
        if !root.has_tag_name("configuration") {
            let line = line(&document, root);
            return Err(format!("{}:{line}: expected <configuration>", path.display()));
        }
        self.children(path, root, depth)
    }

    fn children(&mut self, path: &Path, parent: Node<'_, '_>, depth: usize) -> Result<(), String> {
        for node in parent.children().filter(Node::is_element) {
            if node.has_tag_name((XINCLUDE, "include")) || node.has_tag_name("include") {
                self.include(path, node, depth)?;
            } else if node.has_tag_name("property") {
                self.property(node);
            } else if node.has_tag_name("configuration") {
                self.children(path, node, depth)?;
            }
        }
        Ok(())
    }

    fn property(&mut self, node: Node<'_, '_>) {
        let field = |name: &str| {
            let child = node.children().find(|n| n.is_element() && n.tag_name().name() == name);
            child.map(content).or_else(|| node.attribute(name).map(str::to_owned))
        };
        let Some(name) = field("name").map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()) else {
            return;
        };
        if self.finals.contains(&name) {
            return;
        }
        if field("final").is_some_and(|text| text.trim() == "true") {
            self.finals.insert(name.clone());
        }
        if let Some(value) = field("value") {
            self.properties.insert(name, value);
        }
    }

    fn include(&mut self, path: &Path, node: Node<'_, '_>, depth: usize) -> Result<(), String> {
        let at = || format!("{}:{}", path.display(), line(node.document(), node));
        let Some(href) = node.attribute("href") else { return Err(format!("{}: an include without href", at())) };
        if depth >= MAX_INCLUDES {
            return Err(format!("{}: more than {MAX_INCLUDES} files include one another", at()));
        }
        let href = href.strip_prefix("file://").unwrap_or(href);
        let included = path.parent().unwrap_or(Path::new("")).join(href);
        if let Some(text) = text(&included)? {
            return self.file(&included, &text, depth + 1);
        }
        match node.children().find(|n| n.is_element() && n.tag_name().name() == "fallback") {
            Some(fallback) => self.children(path, fallback, depth),
            None => Err(format!("{}: the included file {} does not exist", at(), included.display())),
        }
    }
}

/// The text of an element, CDATA and what stands around comments included.
fn content(node: Node<'_, '_>) -> String {
    node.children().filter(Node::is_text).filter_map(|n| n.text()).collect()
}

fn line(document: &Document<'_>, node: Node<'_, '_>) -> u32 {
    document.text_pos_at(node.range().start).row
}

fn text(path: &Path) -> Result<Option<String>, String> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(e) => Err(format!("cannot read {}: {e}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        dir
    }

    fn property(name: &str, value: &str) -> String {
        format!("<property><name>{name}</name><value>{value}</value></property>")
    }

    #[test]
    fn r09_the_later_file_wins_unless_a_value_is_final() {
        let a = "<?xml version='1.0'?>\n<!DOCTYPE configuration>\n<configuration>\n\
                 <property><name> a </name><value>1</value><final>true</final></property>\n\
                 <property name='x' value='2'/><property><name>b</name><value><![CDATA[1<2]]></value></property>\
                 </configuration>";
        let b = format!(
            "<configuration>{}{}{}</configuration>",
            property("a", "other"),
            property("x", "3"),
            property("e", "")
        );
        let dir = dir(&[("core-site.xml", a), ("hdfs-site.xml", &b)]);
        let read: Vec<_> = read(dir.path()).unwrap().into_iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(read, ["a=1", "b=1<2", "e=", "x=3"]);
        assert!(super::read(Path::new("no/such/dir")).unwrap().is_empty());
    }

    #[test]
    fn r09_includes_are_followed_and_have_a_fallback() {
        let xi = "xmlns:xi='http://www.w3.org/2001/XInclude'";
        let core = format!(
            "<configuration {xi}><xi:include href='more.xml'/><xi:include href='gone.xml'><xi:fallback>{}\
             </xi:fallback></xi:include></configuration>",
            property("b", "2")
        );
        let more = format!("<configuration>{}</configuration>", property("a", "1"));
        let found = read(dir(&[("core-site.xml", &core), ("more.xml", &more)]).path()).unwrap();
        assert_eq!((found["a"].as_str(), found["b"].as_str()), ("1", "2"));

        let itself = format!("<configuration {xi}>\n<xi:include href='core-site.xml'/></configuration>");
        let said = read(dir(&[("core-site.xml", &itself)]).path()).unwrap_err();
        assert!(said.contains("core-site.xml:2") && said.contains("include one another"), "{said}");
        let gone = format!("<configuration {xi}>\n<xi:include href='gone.xml'/></configuration>");
        let said = read(dir(&[("core-site.xml", &gone)]).path()).unwrap_err();
        assert!(said.contains("core-site.xml:2") && said.contains("gone.xml"), "{said}");
    }

    #[test]
    fn r11_a_broken_file_is_named_with_its_line_and_without_its_content() {
        for text in [
            "<configuration>\n<property><name>fs.s3a.secret.key</name><value>S3CR3T&S3CR3T;</value></property>\n",
            "<configuration>\n<S3CR3T></configuration>",
            "\n<S3CR3T/>",
        ] {
            let said = read(dir(&[("hdfs-site.xml", text)]).path()).unwrap_err();
            assert!(said.contains("hdfs-site.xml:2: ") && !said.contains("S3CR3T"), "{said}");
        }
        let said = read(dir(&[("core-site.xml", "")]).path()).unwrap_err();
        assert!(said.contains("core-site.xml:1"), "{said}");
    }
}
