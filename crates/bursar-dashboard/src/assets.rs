//! Style sheet, script and icon. Their URLs contain a digest of their content, so that browsers may keep them for ever.

use std::sync::LazyLock;

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use sha2::{Digest, Sha256};

use crate::Shared;

/// A file of the dashboard.
pub(crate) struct Asset {
    media: &'static str,
    content: &'static str,
    /// Its URL.
    pub(crate) url: String,
}

impl Asset {
    fn new(name: &str, media: &'static str, content: &'static str) -> Asset {
        let digest = Sha256::digest(content);
        let digest: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        let (stem, end) = name.rsplit_once('.').unwrap_or((name, ""));
        Asset { media, content, url: format!("/assets/{stem}.{digest}.{end}") }
    }
}

pub(crate) static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("dashboard.css", "text/css; charset=utf-8", include_str!("../assets/dashboard.css")));
pub(crate) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("dashboard.js", "text/javascript; charset=utf-8", include_str!("../assets/dashboard.js"))
});
pub(crate) static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("icon.svg", "image/svg+xml", include_str!("../assets/icon.svg")));

pub(crate) fn router() -> Router<Shared> {
    Router::new().route("/assets/{name}", get(serve)).route("/favicon.ico", get(icon))
}

async fn serve(Path(name): Path<String>) -> Response {
    let url = format!("/assets/{name}");
    let all = [&*STYLE, &*SCRIPT, &*ICON];
    match all.into_iter().find(|asset| asset.url == url) {
        Some(asset) => content(asset),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn icon() -> Response {
    content(&ICON)
}

fn content(asset: &Asset) -> Response {
    let headers: [(HeaderName, &str); 2] =
        [(header::CONTENT_TYPE, asset.media), (header::CACHE_CONTROL, "public, max-age=31536000, immutable")];
    (headers, asset.content).into_response()
}
