//! What all requests share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bursar::{Bursar, Clock};
use bytes::Bytes;

use crate::events::Tails;
use crate::in_flight::InFlight;
use crate::leases::Leases;
use crate::limits::{Limits, Places};
use crate::metering::Metering;
use crate::metrics::Metrics;
use crate::principal::Principal;
use crate::principal::attempts::Attempts;
use crate::principal::authenticate::Keys;
use crate::principal::proxies::Proxies;
use crate::principal::readings::Readings;
use crate::principal::uses::Uses;
use crate::route::Route;
use crate::routes;

/// What all requests share.
pub(crate) struct App {
    pub(crate) bursar: Bursar,
    pub(crate) routes: Vec<Arc<Route>>,
    pub(crate) keys: Keys,
    pub(crate) attempts: Attempts,
    pub(crate) uses: Uses,
    pub(crate) readings: Readings<Result<Principal, String>>,
    pub(crate) limits: Limits,
    pub(crate) places: Places,
    pub(crate) bytes: InFlight,
    pub(crate) proxies: Proxies,
    pub(crate) metrics: Metrics,
    pub(crate) tails: Tails,
    pub(crate) leases: Leases,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metering: Metering,
    /// The OpenAPI document, made once somebody wants it.
    document: OnceLock<Bytes>,
    /// Who asks, where nobody has to show a token.
    pub(crate) insider: Option<Principal>,
    stopping: AtomicBool,
}

impl App {
    pub(crate) fn new(bursar: Bursar, keys: Keys, limits: Limits, clock: Arc<dyn Clock>, metering: Metering) -> App {
        let bytes = InFlight::new(limits.bytes, limits.principal_bytes);
        let routes: Vec<Arc<Route>> = routes::all().into_iter().map(Arc::new).collect();
        App {
            tails: Tails::new(bursar.clone(), limits.waiting, bytes.clone()),
            bytes,
            proxies: Proxies::default(),
            bursar,
            document: OnceLock::new(),
            insider: None,
            routes,
            keys,
            attempts: Attempts::default(),
            uses: Uses::default(),
            readings: Readings::default(),
            places: Places::new(&limits),
            limits,
            leases: Leases::default(),
            metrics: Metrics::default(),
            clock,
            metering,
            stopping: AtomicBool::new(false),
        }
    }

    /// The OpenAPI document.
    pub(crate) fn document(&self) -> Bytes {
        self.document.get_or_init(|| crate::openapi::document().to_string().into()).clone()
    }

    /// The methods of each path.
    pub(crate) fn methods(&self) -> BTreeMap<&'static str, Vec<&'static str>> {
        let mut methods: BTreeMap<&'static str, Vec<&'static str>> = BTreeMap::new();
        for route in &self.routes {
            methods.entry(route.path).or_default().push(route.method_name());
        }
        methods
    }

    /// The server is to end: who asks whether it is ready is told that it is not.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.tails.stop();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}
