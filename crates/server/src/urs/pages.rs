//! Unity's own web client from the owner's folder, at the origin that it expects its server to have.
//!
//! Its pages import their scripts from `../../module/`: Unity's server has `client/public` at `/` and `client/src` at `/module`. Here
//! `/` is our own page's, so both stand under `/unity/`, and the scripts at `/module/` too.

use std::fs::File;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path as UrlPath, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;

use crate::page::content_type;

/// A larger file is no part of a page: Unity's largest picture has some hundred kilobytes.
const MAX_FILE: u64 = 16 * 1024 * 1024;

/// Where the client's files are.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pages {
    public: PathBuf,
    /// What is at `module/`.
    module: PathBuf,
}

impl Pages {
    /// `folder` is the package's `client` with `public` and `src` in it, or `public` itself beside `src`, or both merged: the pages with
    /// the scripts in `module`.
    fn find(folder: &Path) -> Self {
        let whole = folder.join("public");
        let public = if whole.is_dir() { whole } else { folder.to_owned() };
        let module = public.join("module");
        let beside = public.canonicalize().ok().and_then(|path| Some(path.parent()?.join("src")));
        let module = beside.filter(|beside| !module.is_dir() && beside.is_dir()).unwrap_or(module);
        Self { public, module }
    }

    fn read(&self, path: &str) -> Found {
        match path.strip_prefix("module/") {
            Some(script) => read(&self.module, Path::new(script)),
            None => read(&self.public, Path::new(path)),
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
    // The last word suffices, and holds wherever a proxy has put the page.
    let within = format!("{}/", path.rsplit('/').next().unwrap_or_default());
    let found = tokio::task::spawn_blocking(move || pages.read(&path)).await.unwrap_or(Found::Nothing);
    match found {
        Found::File(bytes) => {
            let headers = [
                (header::CONTENT_TYPE, kind),
                (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
                (header::REFERRER_POLICY, "no-referrer"),
                (header::CACHE_CONTROL, "no-cache"),
            ];
            (headers, bytes).into_response()
        }
        Found::Folder => Redirect::permanent(&within).into_response(),
        Found::Nothing => (StatusCode::NOT_FOUND, "there is no such page\n").into_response(),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    File(Vec<u8>),
    Folder,
    /// Neither within the folder, links followed.
    Nothing,
}

fn read(folder: &Path, path: &Path) -> Found {
    if !path.components().all(|part| matches!(part, Component::Normal(_))) {
        return Found::Nothing;
    }
    let (Ok(folder), Ok(path)) = (folder.canonicalize(), folder.join(path).canonicalize()) else {
        return Found::Nothing;
    };
    if !path.starts_with(&folder) {
        return Found::Nothing;
    }
    if path.is_dir() {
        return Found::Folder;
    }
    read_file(&path).map_or(Found::Nothing, Found::File)
}

fn read_file(path: &Path) -> Option<Vec<u8>> {
    // A pipe would be waited for.
    if !path.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_FILE + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= MAX_FILE).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use tower_service::Service as _;

    use super::*;

    #[test]
    fn only_files_within_the_folder_are_served() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        assert!(matches!(read(&folder, Path::new("urs/pages.rs")), Found::File(_)));
        assert_eq!(read(&folder, Path::new("urs")), Found::Folder);
        for path in ["urs/../lib.rs", "..", "../Cargo.toml", "/etc/hostname", "none.rs", "urs/\0"] {
            assert_eq!(read(&folder, Path::new(path)), Found::Nothing, "{path}");
        }
    }

    /// A folder that goes when the test ends.
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

    /// Status and body, or where it was sent instead.
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
