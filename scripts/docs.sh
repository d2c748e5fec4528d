#!/usr/bin/env bash
# Makes a site with search from README.md and docs/: target/docs/site. It needs no server; a browser opens index.html.
# `scripts/setup.sh docs` has installed mdBook, which this needs.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$HOME/.cargo/bin:$PATH
command -v mdbook >/dev/null || { echo "docs.sh: mdbook is missing; install it with: scripts/setup.sh docs" >&2; exit 1; }
book=$(realpath -m "${CARGO_TARGET_DIR:-target}")/docs
rm -rf "$book"
mkdir -p "$book/source"
cp docs/book.toml "$book/"

# The site has the folders of the repository, so that links from page to page and to files hold.
mapfile -t pages < <(git ls-files -- '*.md' docs LICENSE-MIT LICENSE-APACHE)
# What pages link to besides pages, relative to their own folder.
mapfile -t linked < <(for page in $(git ls-files -- '*.md'); do
  { grep -oE '\]\([^):#]+' "$page" || true; } | sed 's/^](//' | while read -r link; do realpath -m --relative-to=. "$(dirname "$page")/$link"; done
done | grep -v '\.md$' | sort -u)
for file in "${pages[@]}" "${linked[@]}"; do
  [ ! -e "$file" ] || [ "$file" = docs/SUMMARY.md ] || cp -r --parents "$file" "$book/source/"
done
# mdBook makes index.html of a README.md, but not of the links to it.
find "$book/source" -name README.md -execdir mv {} index.md \;
find "$book/source" -name '*.md' -exec sed -i -E 's|(\]\([^):]*)README\.md([)#])|\1index.md\2|g' {} +
sed -E 's|\]\(|](docs/|; s|docs/\.\./||; s|README\.md|index.md|' docs/SUMMARY.md >"$book/source/SUMMARY.md"

mdbook build "$book" >&2
rm -rf "$book/source"
cat >"$book/site/LICENCES.txt" <<'LICENCES'
The text is part of Nearlight and may be used under its licences, MIT or Apache-2.0. The pages' frame, styles and scripts are those of mdBook
(Mozilla Public License 2.0, https://github.com/rust-lang/mdBook), which contains elasticlunr.js and mark.js (MIT), highlight.js (BSD-3-Clause),
clipboard.js (MIT), icons of Font Awesome (CC BY 4.0), and the fonts Open Sans and Source Code Pro (their licences are in the folder fonts).
LICENCES
echo "docs: $book/site/index.html" >&2
