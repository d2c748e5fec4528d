//! Unity's own web client from the owner's folder, at the origin that it expects its server to have.

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

/// Serves the files of `folder` under `/unity/`.
pub(crate) fn router(folder: PathBuf) -> Router {
    Router::new()
        .route("/unity", get(|| async { Redirect::permanent("/unity/") }))
        .route("/unity/", get(|State(folder): State<Arc<PathBuf>>| file(folder, String::new())))
        .route(
            "/unity/{*path}",
            get(|State(folder): State<Arc<PathBuf>>, UrlPath(path): UrlPath<String>| file(folder, path)),
        )
        .with_state(Arc::new(folder))
}

async fn file(folder: Arc<PathBuf>, mut path: String) -> Response {
    if path.is_empty() || path.ends_with('/') {
        path.push_str("index.html");
    }
    let kind = content_type(&path);
    let read = tokio::task::spawn_blocking(move || read(&folder, Path::new(&path))).await;
    match read {
        Ok(Some(bytes)) => {
            let headers = [
                (header::CONTENT_TYPE, kind),
                (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
                (header::REFERRER_POLICY, "no-referrer"),
                (header::CACHE_CONTROL, "no-cache"),
            ];
            (headers, bytes).into_response()
        }
        _ => (StatusCode::NOT_FOUND, "there is no such page\n").into_response(),
    }
}

/// None for what is not a file within the folder, links followed.
fn read(folder: &Path, path: &Path) -> Option<Vec<u8>> {
    if !path.components().all(|part| matches!(part, Component::Normal(_))) {
        return None;
    }
    let (folder, path) = (folder.canonicalize().ok()?, folder.join(path).canonicalize().ok()?);
    if !path.starts_with(&folder) || !path.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_FILE + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= MAX_FILE).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_within_the_folder_are_served() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        assert!(read(&folder, Path::new("urs/pages.rs")).is_some());
        for path in ["", "urs", "urs/../lib.rs", "../Cargo.toml", "/etc/hostname", "none.rs", "urs/\0"] {
            assert!(read(&folder, Path::new(path)).is_none(), "{path}");
        }
    }
}
