//! The documents of the repository: every link leads to a file, and to a heading if it names one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// The list of the site's pages, in their order.
const CONTENTS: &str = "docs/SUMMARY.md";

/// The headings and links of one document.
#[derive(Debug, Default)]
struct Document {
    anchors: BTreeSet<String>,
    links: Vec<String>,
}

/// Returns a sentence for each link that leads nowhere, and for each page of `docs` that the list of contents leaves out.
pub(crate) fn complaints(root: &Path) -> Result<Vec<String>> {
    let mut documents = BTreeMap::new();
    for name in tracked_documents(root)? {
        let text = std::fs::read_to_string(root.join(&name)).with_context(|| name.clone())?;
        documents.insert(PathBuf::from(name), read(&text));
    }
    let mut complaints = Vec::new();
    for (name, document) in &documents {
        let broken = document.links.iter().filter(|link| !leads_somewhere(root, &documents, name, link));
        complaints.extend(broken.map(|link| format!("{}: the link {link} leads nowhere", name.display())));
    }
    let contents = documents.get(Path::new(CONTENTS)).with_context(|| format!("{CONTENTS} is missing"))?;
    let listed: BTreeSet<PathBuf> = contents.links.iter().map(|link| resolved(Path::new(CONTENTS), link)).collect();
    let pages = documents.keys().filter(|name| name.starts_with("docs") && *name != Path::new(CONTENTS));
    let left_out = pages.filter(|name| !listed.contains(*name));
    complaints.extend(left_out.map(|name| format!("{CONTENTS} does not list {}", name.display())));
    Ok(complaints)
}

fn tracked_documents(root: &Path) -> Result<Vec<String>> {
    let output = Command::new("git").current_dir(root).args(["ls-files", "-z", "--", "*.md"]).output()?;
    ensure!(output.status.success(), "git cannot list the documents: {}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout)?;
    Ok(names.split_terminator('\0').map(String::from).collect())
}

fn read(text: &str) -> Document {
    let mut document = Document::default();
    let mut heading: Option<String> = None;
    for event in Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                let anchor = anchor(&heading.take().unwrap_or_default());
                let numbered = (1..).map(|number| format!("{anchor}-{number}"));
                let mut candidates = std::iter::once(anchor.clone()).chain(numbered);
                document.anchors.extend(candidates.find(|candidate| !document.anchors.contains(candidate)));
            }
            Event::Text(words) | Event::Code(words) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&words);
                }
            }
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                document.links.push(dest_url.into_string());
            }
            _ => {}
        }
    }
    document
}

/// Returns the anchor of a heading, by the rules of GitHub and mdBook.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).flat_map(char::to_lowercase).collect()
}

/// Returns the path of what a document links to, from the root of the repository and without the anchor.
fn resolved(from: &Path, link: &str) -> PathBuf {
    let path = link.split('#').next().unwrap_or_default();
    if path.is_empty() {
        return from.to_owned();
    }
    let mut resolved = from.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => drop(resolved.pop()),
            Component::CurDir => {}
            other => resolved.push(other),
        }
    }
    resolved
}

fn leads_somewhere(root: &Path, documents: &BTreeMap<PathBuf, Document>, from: &Path, link: &str) -> bool {
    if link.contains("://") || link.starts_with("mailto:") {
        return true;
    }
    let target = resolved(from, link);
    match (link.split_once('#'), documents.get(&target)) {
        (Some((_, anchor)), Some(document)) => document.anchors.contains(anchor),
        _ => root.join(target).exists(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_of_a_document_leads_somewhere() {
        let complaints = complaints(&crate::root()).expect("the documents can be read");
        assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    }

    #[test]
    fn headings_have_the_anchors_that_sites_give_them() {
        let document = read(
            "# 12. Sound: `19` bytes\n## Again\n## Again\n[there](a.md#b) `[not](c.md)`\n```\n# no heading\n```\n",
        );
        assert_eq!(document.anchors.iter().collect::<Vec<_>>(), ["12-sound-19-bytes", "again", "again-1"]);
        assert_eq!(document.links, ["a.md#b"]);
    }

    #[test]
    fn a_link_without_a_file_or_a_heading_is_found() {
        let page = Path::new("docs/architecture/page.md");
        assert_eq!(resolved(page, "../wire.md#rooms"), Path::new("docs/wire.md"));
        assert_eq!(resolved(page, "#here"), page);
        let documents = BTreeMap::from([(PathBuf::from("docs/wire.md"), read("# Rooms\n"))]);
        let root = crate::root();
        for (link, expected) in [
            ("../wire.md#rooms", true),
            ("../wire.md#room", false),
            ("../none.md", false),
            ("../../Cargo.toml", true),
            ("https://www.rust-lang.org", true),
        ] {
            assert_eq!(leads_somewhere(&root, &documents, page, link), expected, "{link}");
        }
    }
}
