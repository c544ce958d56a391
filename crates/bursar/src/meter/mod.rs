//! Quotas as middleware: a [`tower::Layer`](tower_layer::Layer) that charges each request to its caller before it is
//! served.
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! use bursar::meter::{Caller, Meter};
//!
//! let bursar = bursar::Bursar::open("sqlite::memory:").await?;
//! let meter = Meter::new(bursar.clone());
//! // For any tower service of HTTP requests, such as an axum router: `router.layer(meter.layer())`.
//! let layer = meter.layer();
//!
//! // The same by hand. A quota is a budget, by default 10,000 units an hour.
//! let caller = Caller::new("me")?;
//! let standing = meter.check_and_record(&caller, 10).await??;
//! assert_eq!(standing.limits[0].remaining, 9_990);
//! assert_eq!(bursar.ledger().remaining("agent:me").await?[0].remaining, Some(9_990));
//! # drop(layer);
//! # bursar.close().await;
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! A charge is durable before its request is served, unless the setting `slices` lets the meter admit requests of busy
//! callers from memory. Each caller that is charged has a row in the database, like any scope.

mod admit;
mod agent_keys;
mod body;
mod caller;
mod cost;
mod counters;
mod headers;
mod layer;
mod pattern;
mod problem;
mod seen;
mod settings;
mod settle;
mod signed;
mod slices;
mod standing;

use std::sync::Arc;

use bursar_core::budget::Budget;
use bursar_core::context::Context;
use bursar_store::{Clock, SystemClock};

pub use bursar_signatures::{PublicKey, SignatureError};

pub use crate::meter::admit::{Admission, ChargeOutcome, Once, Recorded, Reserved};
pub use crate::meter::agent_keys::AgentKey;
pub use crate::meter::body::{CountedBody, MeteredBody};
pub use crate::meter::caller::{
    AGENT_ID, AgentId, ApiKey, BadCaller, Caller, ClientIp, FromExtension, FromHeader, Identify, SCOPE_PREFIX,
};
pub use crate::meter::cost::{CostModel, Count, Extra, Operation, Price};
pub use crate::meter::counters::MeterCounters;
pub use crate::meter::headers::{
    QUOTA_LIMIT, QUOTA_REMAINING, QUOTA_RESET, RATE_LIMIT, RATE_LIMIT_POLICY, unix_seconds,
};
pub use crate::meter::layer::{MeterLayer, Metered};
pub use crate::meter::pattern::{BadPath, PathPattern};
pub use crate::meter::settings::{Anonymous, MeterError, MeterSettings, OnFailure};
pub use crate::meter::settle::ActualCost;
pub use crate::meter::signed::{BodyCheck, SignatureSettings, Signed, SignedRequest};
pub use crate::meter::slices::SliceSettings;
pub use crate::meter::standing::{LimitStanding, QuotaExceeded, Standing};

use crate::api::instance::Bursar;
use crate::meter::agent_keys::AgentKeys;
use crate::meter::counters::LiveCounters;
use crate::meter::seen::SeenNonces;
use crate::meter::slices::Slices;

/// Charges requests to the quotas of their callers. Cheap to clone.
#[derive(Clone)]
pub struct Meter {
    bursar: Bursar,
    inner: Arc<Inner>,
}

struct Inner {
    settings: MeterSettings,
    /// The budget of a caller without limits of its own.
    quota: Arc<Budget>,
    identify: Box<dyn Identify>,
    clock: Arc<dyn Clock>,
    counters: LiveCounters,
    agents: AgentKeys,
    seen: SeenNonces,
    slices: Slices,
}

/// Builds a meter. From [`Meter::builder`].
#[must_use = "a meter does nothing until it is built"]
pub struct MeterBuilder {
    bursar: Bursar,
    settings: MeterSettings,
    identify: Box<dyn Identify>,
    clock: Arc<dyn Clock>,
}

impl Meter {
    /// Creates a meter with the default settings: callers are identified by `X-Agent-Id`, each request costs 1 unit, and
    /// each caller has 10,000 units an hour.
    pub fn new(bursar: Bursar) -> Meter {
        Meter::builder(bursar).build().expect("the default settings are valid")
    }

    /// Returns a builder for a meter with other settings.
    pub fn builder(bursar: Bursar) -> MeterBuilder {
        MeterBuilder {
            bursar,
            settings: MeterSettings::default(),
            identify: Box::new(AgentId),
            clock: Arc::new(SystemClock),
        }
    }

    /// Returns the middleware.
    pub fn layer(&self) -> MeterLayer {
        MeterLayer(self.clone())
    }

    /// Returns the counters of this meter and its clones.
    pub fn counters(&self) -> MeterCounters {
        self.inner.counters.read()
    }

    /// Returns the settings.
    pub fn settings(&self) -> &MeterSettings {
        &self.inner.settings
    }

    /// Returns a clone that makes requests in another context, such as for another tenant.
    pub fn in_context(&self, context: Context) -> Meter {
        Meter { bursar: self.bursar.in_context(context), inner: self.inner.clone() }
    }
}

impl MeterBuilder {
    /// Replaces all settings that a TOML file can contain.
    pub fn settings(self, settings: MeterSettings) -> MeterBuilder {
        MeterBuilder { settings, ..self }
    }

    /// Changes single settings.
    pub fn set(mut self, change: impl FnOnce(&mut MeterSettings)) -> MeterBuilder {
        change(&mut self.settings);
        self
    }

    /// Sets the costs of requests.
    pub fn costs(self, costs: CostModel) -> MeterBuilder {
        self.set(|settings| settings.costs = costs)
    }

    /// Sets how the caller of a request is identified.
    pub fn identify(self, identify: impl Identify) -> MeterBuilder {
        MeterBuilder { identify: Box::new(identify), ..self }
    }

    /// Sets the clock for the reset times in the answers to refused callers; default: the machine's. Quotas themselves are
    /// checked by the clock that Bursar's decisions use.
    pub fn clock(self, clock: Arc<dyn Clock>) -> MeterBuilder {
        MeterBuilder { clock, ..self }
    }

    /// Builds the meter. Fails if a setting is invalid.
    pub fn build(self) -> Result<Meter, MeterError> {
        let MeterBuilder { bursar, settings, identify, clock } = self;
        settings.check()?;
        let quota = Arc::new(settings.budget(settings.quota.clone()).by_default());
        if settings.signed != Signed::Off {
            settings.signatures.check_kept(bursar.inner.rules.key_kept)?;
        }
        let agents = AgentKeys::open(&settings)?;
        let seen = SeenNonces::new(settings.signatures.window());
        let counters = LiveCounters::default();
        let slices = Slices::default();
        let inner = Arc::new(Inner { settings, quota, identify, clock, counters, agents, seen, slices });
        let meter = Meter { bursar, inner };
        meter.inner.settings.slices.into_iter().for_each(|settings| meter.tend_slices(settings));
        Ok(meter)
    }
}
