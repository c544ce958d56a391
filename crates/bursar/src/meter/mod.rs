//! Quotas as middleware: a [`tower::Layer`](tower_layer::Layer) that charges each request to its caller before it is served.
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! use bursar::meter::{Caller, Meter};
//!
//! let bursar = bursar::Bursar::open("sqlite::memory:").await?;
//! let meter = Meter::new(bursar.clone());
//! // In front of any service of http bodies, such as a router of axum: `router.layer(meter.layer())`.
//! let layer = meter.layer();
//!
//! // The same by hand. A quota is a budget: 10,000 units an hour unless something else is set.
//! let caller = Caller::new("me")?;
//! let standing = meter.check_and_record(&caller, 10).await??;
//! assert_eq!(standing.limits[0].remaining, 9_990);
//! assert_eq!(bursar.ledger().remaining("agent:me").await?[0].remaining, Some(9_990));
//! # drop(layer);
//! # bursar.close().await;
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! Every request is durable before it is served. Nothing is remembered of callers here, so that endless callers take no memory; each
//! of them that is served takes a row of the database, like any scope that is charged.

mod admit;
mod body;
mod caller;
mod cost;
mod counters;
mod headers;
mod layer;
mod pattern;
mod problem;
mod settings;
mod settle;
mod standing;

use std::sync::Arc;

use bursar_core::budget::Budget;
use bursar_core::context::Context;
use bursar_store::{Clock, SystemClock};

pub use crate::meter::admit::{Admission, Reserved, Verdict};
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
pub use crate::meter::standing::{LimitStanding, QuotaExceeded, Standing};

use crate::api::instance::Bursar;
use crate::meter::counters::Counting;

/// Charges requests to their callers. Cheap to clone.
#[derive(Clone)]
pub struct Meter {
    bursar: Bursar,
    inner: Arc<Inner>,
}

struct Inner {
    settings: MeterSettings,
    /// The budget of a caller for whom nothing else is set.
    quota: Arc<Budget>,
    identify: Box<dyn Identify>,
    clock: Arc<dyn Clock>,
    counters: Counting,
}

/// A meter in the making.
#[must_use = "it meters nothing until it is built"]
pub struct MeterBuilder {
    bursar: Bursar,
    settings: MeterSettings,
    identify: Box<dyn Identify>,
    clock: Arc<dyn Clock>,
}

impl Meter {
    /// A meter as by default: callers by `X-Agent-Id`, each request costs 1, 10,000 units an hour.
    pub fn new(bursar: Bursar) -> Meter {
        Meter::builder(bursar).build().expect("what is set by default goes")
    }

    /// A meter with other settings.
    pub fn builder(bursar: Bursar) -> MeterBuilder {
        MeterBuilder {
            bursar,
            settings: MeterSettings::default(),
            identify: Box::new(AgentId),
            clock: Arc::new(SystemClock),
        }
    }

    /// The middleware.
    pub fn layer(&self) -> MeterLayer {
        MeterLayer(self.clone())
    }

    /// What it has done so far, its clones included.
    pub fn counters(&self) -> MeterCounters {
        self.inner.counters.told()
    }

    /// What is set.
    pub fn settings(&self) -> &MeterSettings {
        &self.inner.settings
    }

    /// The same meter, acting in another context: for another tenant.
    pub fn in_context(&self, context: Context) -> Meter {
        Meter { bursar: self.bursar.in_context(context), inner: self.inner.clone() }
    }
}

impl MeterBuilder {
    /// Sets everything that a file can say.
    pub fn settings(self, settings: MeterSettings) -> MeterBuilder {
        MeterBuilder { settings, ..self }
    }

    /// Changes single settings.
    pub fn set(mut self, change: impl FnOnce(&mut MeterSettings)) -> MeterBuilder {
        change(&mut self.settings);
        self
    }

    /// Says what requests cost.
    pub fn costs(self, costs: CostModel) -> MeterBuilder {
        self.set(|settings| settings.costs = costs)
    }

    /// Says who makes a request.
    pub fn identify(self, identify: impl Identify) -> MeterBuilder {
        MeterBuilder { identify: Box::new(identify), ..self }
    }

    /// The clock by which a refused caller is told when its quota is whole again; the machine's unless it is set. Whether a
    /// quota leaves enough goes by the clock of the database.
    pub fn clock(self, clock: Arc<dyn Clock>) -> MeterBuilder {
        MeterBuilder { clock, ..self }
    }

    /// The meter, if what is set goes.
    pub fn build(self) -> Result<Meter, MeterError> {
        let MeterBuilder { bursar, settings, identify, clock } = self;
        settings.check()?;
        let quota = Arc::new(settings.budget(settings.quota.clone()).by_default());
        let inner = Arc::new(Inner { settings, quota, identify, clock, counters: Counting::default() });
        Ok(Meter { bursar, inner })
    }
}
