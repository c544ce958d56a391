//! State that all requests share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bursar::{Bursar, Clock};
use bursar_blobs::Blobs;
use bytes::Bytes;

use crate::activity::Activities;
use crate::events::Tails;
use crate::in_flight::BytesInFlight;
use crate::lease_cache::LeaseCache;
use crate::limits::{Limits, RequestSlots};
use crate::metering::Metering;
use crate::metrics::Metrics;
use crate::otlp::Otlp;
use crate::principal::Principal;
use crate::principal::authenticate::TokenKeys;
use crate::principal::failed_attempts::FailedAttempts;
use crate::principal::proxies::Proxies;
use crate::principal::revocation::Revocations;
use crate::principal::shared_reads::SharedReads;
use crate::principal::token_uses::TokenUses;
use crate::route::Route;
use crate::routes;

/// State that all requests share.
pub(crate) struct App {
    pub(crate) bursar: Bursar,
    /// The bytes of blobs; `None` if the server has no place for them.
    pub(crate) blobs: Option<Blobs>,
    /// Whether downloads from a bucket are redirected to it.
    pub(crate) redirect_downloads: bool,
    pub(crate) routes: Vec<Arc<Route>>,
    pub(crate) token_keys: TokenKeys,
    pub(crate) failed_attempts: FailedAttempts,
    pub(crate) token_uses: TokenUses,
    pub(crate) token_reads: SharedReads<Result<Principal, String>>,
    pub(crate) revocations: Revocations,
    pub(crate) limits: Limits,
    pub(crate) slots: RequestSlots,
    pub(crate) bytes: BytesInFlight,
    pub(crate) proxies: Proxies,
    pub(crate) metrics: Metrics,
    pub(crate) tails: Tails,
    pub(crate) activities: Activities,
    pub(crate) leases: LeaseCache,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metering: Metering,
    /// Takes spans; `None` if none are exported.
    pub(crate) otlp: Option<Arc<Otlp>>,
    /// The OpenAPI document, generated on first use.
    document: OnceLock<Bytes>,
    /// The principal of every request when the server runs inside the caller's process, where no token is needed.
    pub(crate) local_principal: Option<Principal>,
    stopping: AtomicBool,
}

impl App {
    pub(crate) fn new(
        bursar: Bursar,
        token_keys: TokenKeys,
        limits: Limits,
        clock: Arc<dyn Clock>,
        metering: Metering,
    ) -> App {
        let bytes = BytesInFlight::new(limits.bytes, limits.principal_bytes);
        let routes: Vec<Arc<Route>> = routes::all().into_iter().map(Arc::new).collect();
        App {
            activities: Activities::new(bursar.clone()),
            tails: Tails::new(bursar.clone(), limits.waiting, bytes.clone()),
            bytes,
            proxies: Proxies::default(),
            bursar,
            blobs: None,
            redirect_downloads: false,
            document: OnceLock::new(),
            local_principal: None,
            routes,
            token_keys,
            failed_attempts: FailedAttempts::default(),
            token_uses: TokenUses::default(),
            token_reads: SharedReads::default(),
            revocations: Revocations::default(),
            slots: RequestSlots::new(&limits),
            limits,
            leases: LeaseCache::default(),
            metrics: Metrics::default(),
            clock,
            metering,
            otlp: None,
            stopping: AtomicBool::new(false),
        }
    }

    /// Returns the OpenAPI document as JSON text.
    pub(crate) fn document(&self) -> Bytes {
        self.document.get_or_init(|| crate::openapi::document().to_string().into()).clone()
    }

    /// Returns the methods that each path has.
    pub(crate) fn methods(&self) -> BTreeMap<&'static str, Vec<&'static str>> {
        let mut methods: BTreeMap<&'static str, Vec<&'static str>> = BTreeMap::new();
        for route in &self.routes {
            methods.entry(route.path).or_default().push(route.method_name());
        }
        methods
    }

    /// Begins the shutdown: `/readyz` fails from now on, event streams end, and waiting lease requests are answered.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.tails.stop();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}
