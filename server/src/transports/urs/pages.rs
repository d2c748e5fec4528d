//! Serves Unity's own web client from the owner's folder, at the paths that it expects.
//!
//! Its pages import their scripts from `../../module/`: Unity's server has `client/public` at `/` and `client/src` at `/module`. Here `/`
//! is our own page's, so both are served under `/unity/`, and the scripts under `/module/` too.

use std::fs::{File, Metadata};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path as UrlPath, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use futures_util::stream::try_unfold;

use crate::http::page::content_type;

/// Size of the chunks in which a file is read. For a client that reads slowly, the server keeps one chunk in memory and no open file.
const CHUNK_BYTES: u64 = 16 << 10;
/// Content security policy of the pages: other sites must not embed them.
const FRAMING: &str = "frame-ancestors 'self'";

/// The folders of the client's files.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pages {
    public: PathBuf,
    /// The folder of the scripts, served under `module/`.
    module: PathBuf,
}

impl Pages {
    /// Finds the folders of pages and scripts. `folder` is the package's `client` with `public` and `src` in it, or `public` itself beside
    /// `src`, or both merged: the pages with the scripts in `module`.
    fn find(folder: &Path) -> Self {
        let whole = folder.join("public");
        let public = if whole.is_dir() { whole } else { folder.to_owned() };
        let module = public.join("module");
        let beside = public.canonicalize().ok().and_then(|path| Some(path.parent()?.join("src")));
        let module = beside.filter(|beside| !module.is_dir() && beside.is_dir()).unwrap_or(module);
        Self { public, module }
    }

    fn find_file(&self, path: &str) -> FileLookup {
        match path.strip_prefix("module/") {
            Some(script) => find(&self.module, Path::new(script)),
            None => find(&self.public, Path::new(path)),
        }
    }
}

/// Serves the files of `folder` under `/unity/`, and its scripts under `/module/`.
pub(crate) fn router(folder: &Path) -> Router {
    type Folder = State<Arc<Pages>>;
    Router::new()
        .route("/unity", get(|| async { Redirect::permanent("/unity/") }))
        .route("/unity/", get(|State(pages): Folder| file(pages, String::new())))
        .route("/unity/{*path}", get(|State(pages): Folder, UrlPath(path): UrlPath<String>| file(pages, path)))
        .route(
            "/module/{*path}",
            get(|State(pages): Folder, UrlPath(path): UrlPath<String>| file(pages, format!("module/{path}"))),
        )
        .with_state(Arc::new(Pages::find(folder)))
}

async fn file(pages: Arc<Pages>, mut path: String) -> Response {
    if path.is_empty() || path.ends_with('/') {
        path.push_str("index.html");
    }
    let kind = content_type(&path);
    // A relative redirect with the last path segment works wherever a proxy has mounted the page.
    let within = format!("{}/", path.rsplit('/').next().unwrap_or_default());
    let found = tokio::task::spawn_blocking(move || pages.find_file(&path)).await.unwrap_or(FileLookup::Missing);
    match found {
        FileLookup::File(file) => {
            let headers = [
                (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
                (header::CONTENT_LENGTH, file.length.into()),
                (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
                (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(FRAMING)),
            ];
            (headers, Body::from_stream(try_unfold((file, 0), next_chunk))).into_response()
        }
        FileLookup::Folder => Redirect::permanent(&within).into_response(),
        FileLookup::Missing => (StatusCode::NOT_FOUND, "there is no such page\n").into_response(),
    }
}

/// A file with its size and modification time at the request.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Page {
    path: PathBuf,
    length: u64,
    modified: Option<std::time::SystemTime>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum FileLookup {
    File(Page),
    Folder,
    /// There is no such file or folder within the root, after following links.
    Missing,
}

/// Looks up a path within `folder`. Hidden files, such as those of version control, are never found.
fn find(folder: &Path, path: &Path) -> FileLookup {
    let is_plain = |part: Component<'_>| match part {
        Component::Normal(name) => !name.as_encoded_bytes().starts_with(b"."),
        _ => false,
    };
    if !path.components().all(is_plain) {
        return FileLookup::Missing;
    }
    let (Ok(folder), Ok(path)) = (folder.canonicalize(), folder.join(path).canonicalize()) else {
        return FileLookup::Missing;
    };
    if !path.strip_prefix(&folder).is_ok_and(|within| within.components().all(is_plain)) {
        return FileLookup::Missing;
    }
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => FileLookup::Folder,
        // Opening a pipe would block.
        Ok(metadata) if metadata.is_file() => FileLookup::File(Page::new(path, &metadata)),
        _ => FileLookup::Missing,
    }
}

impl Page {
    fn new(path: PathBuf, metadata: &Metadata) -> Self {
        Self { path, length: metadata.len(), modified: metadata.modified().ok() }
    }

    fn read(&self, position: u64) -> io::Result<Bytes> {
        let mut file = File::open(&self.path)?;
        if Self::new(self.path.clone(), &file.metadata()?) != *self {
            return Err(io::Error::other("the file was changed while it was being sent"));
        }
        file.seek(SeekFrom::Start(position))?;
        let mut chunk = Vec::with_capacity(CHUNK_BYTES as usize);
        file.take(CHUNK_BYTES).read_to_end(&mut chunk)?;
        Ok(chunk.into())
    }
}

/// Reads the next chunk. Returns it with the state for the one after it, or none at the end of the file.
async fn next_chunk((page, position): (Page, u64)) -> io::Result<Option<(Bytes, (Page, u64))>> {
    if position >= page.length {
        return Ok(None);
    }
    let (chunk, page) = tokio::task::spawn_blocking(move || (page.read(position), page)).await?;
    let chunk = chunk?;
    let next = position + chunk.len() as u64;
    Ok(Some((chunk, (page, next))))
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;
    use tower_service::Service as _;

    use super::*;

    #[test]
    fn only_files_within_the_folder_are_served() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/transports");
        assert!(matches!(find(&folder, Path::new("urs/pages.rs")), FileLookup::File(_)));
        assert_eq!(find(&folder, Path::new("urs")), FileLookup::Folder);
        for path in ["urs/../carrier.rs", "..", "../lib.rs", "/etc/hostname", "none.rs", "urs/\0"] {
            assert_eq!(find(&folder, Path::new(path)), FileLookup::Missing, "{path}");
        }
    }

    /// A folder that is removed when the test ends.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str, files: &[&str]) -> Self {
            let folder = Self(std::env::temp_dir().join(format!("nearlight-{name}-{}", std::process::id())));
            for file in files {
                let path = folder.0.join(file);
                std::fs::create_dir_all(path.parent().expect("a folder")).expect("room");
                std::fs::write(path, file).expect("room");
            }
            folder
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// Returns status and body, or the target of a redirect.
    async fn get_from(folder: &Path, path: &str) -> (u16, String) {
        let request = axum::http::Request::get(path).body(Body::empty()).expect("a request");
        let response = router(folder).call(request).await.expect("axum answers");
        let status = response.status().as_u16();
        if let Some(location) = response.headers().get(header::LOCATION) {
            return (status, location.to_str().expect("text").to_owned());
        }
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.expect("a body");
        (status, String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    #[cfg(unix)]
    #[test]
    fn hidden_files_are_not_served_by_whatever_name() {
        let files = ["index.html", ".env", ".git/config", "js/.secret.js", "js/main.js"];
        let root = Folder::new("unity-hidden", &files);
        std::os::unix::fs::symlink(root.0.join(".env"), root.0.join("plain.txt")).expect("a link");
        for (path, is_found) in [
            ("index.html", true),
            ("js/main.js", true),
            (".env", false),
            (".git/config", false),
            (".git", false),
            ("js/.secret.js", false),
            ("plain.txt", false),
        ] {
            assert_eq!(matches!(find(&root.0, Path::new(path)), FileLookup::File(_)), is_found, "{path}");
        }
    }

    #[tokio::test]
    async fn a_large_file_is_read_as_it_is_sent() {
        let root = Folder::new("unity-large", &["large.bin"]);
        let path = root.0.join("large.bin");
        let length = 64 << 20;
        File::create(&path).and_then(|file| file.set_len(length)).expect("a sparse file");
        let request = axum::http::Request::get("/unity/large.bin").body(Body::empty()).expect("a request");
        let response = router(&root.0).call(request).await.expect("axum answers");
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()[header::CONTENT_LENGTH], length.to_string());
        let mut body = response.into_body().into_data_stream();
        let mut received = 0;
        while received < 1 << 20 {
            let chunk = body.next().await.expect("more").expect("a chunk");
            assert!(chunk.len() as u64 <= CHUNK_BYTES, "{} bytes at once", chunk.len());
            received += chunk.len();
        }
        std::fs::write(&path, "another file").expect("room");
        assert!(body.next().await.expect("more").is_err(), "halves of two files are no file");
    }

    #[tokio::test]
    async fn the_client_s_pages_find_their_scripts_however_its_folder_is_named() {
        let apart = ["client/public/index.html", "client/public/receiver/index.html", "client/src/renderstreaming.js"];
        let merged = ["merged/index.html", "merged/receiver/index.html", "merged/module/renderstreaming.js"];
        let all: Vec<&str> = apart.iter().chain(&merged).copied().collect();
        let root = Folder::new("unity-pages", &all);
        for (folder, [index, receiver, script]) in
            [("client", apart), ("client/public", apart), ("client/public/", apart), ("merged", merged)]
        {
            let folder = root.0.join(folder);
            let page = |text: &str| (200, text.to_owned());
            assert_eq!(get_from(&folder, "/unity/").await, page(index));
            assert_eq!(get_from(&folder, "/unity/receiver/").await, page(receiver));
            // What the stock page at /unity/receiver/ names `../../module/renderstreaming.js` in its js/main.js.
            assert_eq!(get_from(&folder, "/unity/module/renderstreaming.js").await, page(script));
            assert_eq!(get_from(&folder, "/module/renderstreaming.js").await, page(script));
            assert_eq!(get_from(&folder, "/unity").await, (308, "/unity/".into()));
            assert_eq!(get_from(&folder, "/unity/receiver").await, (308, "receiver/".into()));
            assert_eq!(get_from(&folder, "/unity/none.html").await.0, 404);
            assert_eq!(get_from(&folder, "/unity/module/../../merged/index.html").await.0, 404);
        }
    }
}
