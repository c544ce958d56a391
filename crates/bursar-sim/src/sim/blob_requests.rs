//! Random requests about blobs: uploads, references, deletion, collection, and the budget of stored bytes.

use bursar_core::answer::{Answer, BlobAnswer, Outcome};
use bursar_core::blob::{BlobSpec, NamespaceConfig, Sha256Digest};
use bursar_core::bounds::BLOB_BYTES_MAX;
use bursar_core::budget::{Budget, Cover, HoldPolicy, Limit};
use bursar_core::id::BlobId;
use bursar_core::name::{Backend, Namespace, Referrer, Scope, Tenant};
use bursar_core::request::{BlobOp, Command, NamedReference, Op, Request};
use bursar_core::time::Span;
use bursar_core::window::Window;

use super::random::Random;
use super::workload::{Workload, remember};

/// The namespaces. Workers that are principals reach only the first.
pub(super) const NAMESPACES: [&str; 2] = ["media", "files"];
/// The number of different contents, few enough that many uploads have the same bytes.
const CONTENTS: u64 = 6;
/// The requests that set up the blobs of a tenant: the budget of its bytes, then its namespaces.
const SET_UPS: usize = 1 + NAMESPACES.len();
/// The most uploads that are remembered to be continued.
const UPLOADS: usize = 12;

/// What the workload knows about blobs.
#[derive(Default)]
pub(super) struct KnownBlobs {
    /// The requests sent to set up blobs.
    set_up: usize,
    /// Uploads that were not ended, with their announced lengths and contents.
    uploads: Vec<(Tenant, BlobId, Option<u64>, Option<Sha256Digest>)>,
    blobs: Vec<(Tenant, BlobId)>,
}

fn namespace(name: &str) -> Namespace {
    Namespace::new(name).expect("a name")
}

fn some_namespace(random: &mut Random) -> Namespace {
    namespace(NAMESPACES[random.below(NAMESPACES.len() as u64) as usize])
}

fn backend(random: &mut Random) -> Backend {
    Backend::new(*random.pick(&["local", "local", "s3"])).expect("a name")
}

fn referrer(random: &mut Random) -> Referrer {
    Referrer::new(format!("post:{}", random.below(4))).expect("a name")
}

fn digest(random: &mut Random) -> Sha256Digest {
    Sha256Digest([random.below(CONTENTS) as u8; 32])
}

/// Returns the length of a content: uploads of the same bytes have the same length.
fn length(digest: Sha256Digest) -> u64 {
    [0, 1, 30, 80, 140, 300][usize::from(digest.0[0]) % 6]
}

fn ttl(random: &mut Random) -> Span {
    Span::from_millis(if random.one_in(4) { 1 + random.below(50) } else { 500 + random.below(2_500) })
}

/// Returns the scope that stored bytes are charged to.
fn disk() -> Scope {
    Scope::new("disk").expect("a name")
}

impl Workload {
    /// Returns the next request that sets up blobs, until all are sent.
    pub(super) fn blob_set_up(&mut self, random: &mut Random) -> Option<(Tenant, Op)> {
        let place = self.known_blobs.set_up;
        let tenant = self.tenants.get(place / SET_UPS).filter(|_| self.has_blobs)?.clone();
        self.known_blobs.set_up += 1;
        let op = match place % SET_UPS {
            0 => self.define_disk(random),
            space => self.define_namespace(random, namespace(NAMESPACES[space - 1])),
        };
        Some((tenant, op))
    }

    /// Returns a request about blobs.
    pub(super) fn blob_request(&mut self, random: &mut Random, tenant: &Tenant) -> Op {
        let blob = self.some_blob(random, tenant);
        Op::Blob(match random.below(44) {
            0..10 => BlobOp::Start { spec: spec(random), ttl: ttl(random) },
            10..13 => {
                let (blob, size, _) = self.upload(random, tenant, false);
                let size = size.filter(|_| !random.one_in(4)).unwrap_or_else(|| random.below(450));
                BlobOp::Grow { blob, size, ttl: ttl(random) }
            }
            13..23 => self.store(random, tenant),
            23 => BlobOp::Abandon { blob: self.upload(random, tenant, true).0 },
            24..29 => BlobOp::Reference { blob, by: referrer(random) },
            29..32 => BlobOp::Release { blob, by: referrer(random) },
            32..35 => BlobOp::Delete { blob },
            35..37 => BlobOp::Restore { blob },
            37 => BlobOp::Move { blob, backend: backend(random) },
            38..40 => BlobOp::Doom { blobs: self.some_blobs(random, tenant) },
            40..42 => BlobOp::Collect { blobs: self.some_blobs(random, tenant) },
            42 => {
                let namespace = some_namespace(random);
                return self.define_namespace(random, namespace);
            }
            _ => return self.define_disk(random),
        })
    }

    /// Ends an upload, mostly with the announced bytes.
    fn store(&mut self, random: &mut Random, tenant: &Tenant) -> BlobOp {
        let ends = !random.one_in(4);
        let (blob, size, announced) = self.upload(random, tenant, ends);
        let lies = random.one_in(12);
        let digest = announced.filter(|_| !lies).unwrap_or_else(|| digest(random));
        let size = size.filter(|_| !lies).unwrap_or_else(|| length(digest));
        BlobOp::Store { blob, size, digest }
    }

    fn define_disk(&self, random: &mut Random) -> Op {
        let cover = |random: &mut Random| if random.one_in(6) { Cover::Refuse } else { Cover::Charge };
        let hold = HoldPolicy {
            ttl_min: Span::from_millis(5),
            ttl: None,
            ttl_max: Some(Span::from_millis(3_000)),
            life_max: None,
            late: cover(random),
            overrun: cover(random),
        };
        let parent = random.one_in(4).then(|| random.pick(&self.scopes).clone());
        let limit = Limit::new(random.between(300, 4_000), Window::Lifetime);
        let budget = Budget { parent, hold, thresholds: vec![50, 100], ..Budget::new([limit]) };
        Op::Define { scope: disk(), budget }
    }

    fn define_namespace(&self, random: &mut Random, namespace: Namespace) -> Op {
        let charge = match random.below(8) {
            0..2 => None,
            2 => Some(random.pick(&self.scopes).clone()),
            _ => Some(disk()),
        };
        let config = NamespaceConfig {
            bytes_max: *random.pick(&[100, 200, 400, 400, BLOB_BYTES_MAX]),
            charge,
            grace: Span::from_millis(random.below(1_500)),
            unreferenced: random.one_in(2).then(|| Span::from_millis(random.below(3_000))),
        };
        Op::Blob(BlobOp::DefineNamespace { namespace, config })
    }

    /// Returns an upload of the tenant that was not ended, which is forgotten if it `ends`; or any blob.
    fn upload(
        &mut self,
        random: &mut Random,
        tenant: &Tenant,
        ends: bool,
    ) -> (BlobId, Option<u64>, Option<Sha256Digest>) {
        let uploads = &mut self.known_blobs.uploads;
        if !uploads.is_empty() && !random.one_in(10) {
            let place = random.below(uploads.len() as u64) as usize;
            if uploads[place].0 == *tenant {
                let (_, blob, size, digest) = uploads[place].clone();
                if ends {
                    uploads.swap_remove(place);
                }
                return (blob, size, digest);
            }
        }
        (self.some_blob(random, tenant), None, None)
    }

    /// Returns mostly a blob of the tenant; otherwise one of another tenant, or an unknown one.
    fn some_blob(&self, random: &mut Random, tenant: &Tenant) -> BlobId {
        for _ in 0..4 {
            if self.known_blobs.blobs.is_empty() {
                break;
            }
            let (owner, id) = random.pick(&self.known_blobs.blobs);
            if owner == tenant || random.one_in(20) {
                return *id;
            }
        }
        BlobId(7)
    }

    /// Returns a few different blobs.
    fn some_blobs(&self, random: &mut Random, tenant: &Tenant) -> Vec<BlobId> {
        let mut blobs: Vec<BlobId> = (0..1 + random.below(4)).map(|_| self.some_blob(random, tenant)).collect();
        blobs.sort_unstable();
        blobs.dedup();
        blobs
    }

    /// Returns the blobs that a job uses or made: mostly none.
    pub(super) fn job_blobs(&self, random: &mut Random, tenant: &Tenant) -> Vec<BlobId> {
        if !self.has_blobs || random.one_in(2) {
            return Vec::new();
        }
        (0..1 + random.below(2)).map(|_| self.some_blob(random, tenant)).collect()
    }

    /// Makes some commands and their jobs refer to blobs.
    pub(super) fn with_blobs(&self, random: &mut Random, tenant: &Tenant, op: Op) -> Op {
        let Op::Submit(mut command) = op else { return op };
        if !self.has_blobs {
            return Op::Submit(command);
        }
        for job in &mut command.jobs {
            job.blobs = self.job_blobs(random, tenant);
        }
        if random.one_in(8) {
            command.references.push(self.named_reference(random, tenant));
        }
        if random.one_in(16) {
            let references = (0..2).map(|_| self.named_reference(random, tenant)).collect();
            command = Command { references, ..Command::default() };
        }
        Op::Submit(command)
    }

    fn named_reference(&self, random: &mut Random, tenant: &Tenant) -> NamedReference {
        NamedReference { blob: self.some_blob(random, tenant), by: referrer(random) }
    }

    /// Remembers the blob of an upload.
    pub(super) fn learn_blob(&mut self, random: &mut Random, request: &Request, outcome: &Outcome) {
        let Answer::Blob(BlobAnswer { blob, found }) = outcome.answer else { return };
        let tenant = request.context.tenant.clone();
        if let (Op::Blob(BlobOp::Start { spec, .. }), false) = (&request.op, found) {
            let uploads = &mut self.known_blobs.uploads;
            if uploads.len() == UPLOADS {
                uploads.remove(0);
            }
            uploads.push((tenant.clone(), blob, spec.size, spec.digest));
        }
        remember(&mut self.known_blobs.blobs, (tenant, blob), random);
    }
}

/// Returns a blob to upload. Its length and digest may be announced.
fn spec(random: &mut Random) -> BlobSpec {
    let mut spec = BlobSpec::new(some_namespace(random), backend(random));
    let content = digest(random);
    spec.size = (!random.one_in(3)).then(|| length(content));
    // A length without a digest is that of contents which the end of the upload may not have.
    spec.digest = if spec.size.is_some() || random.one_in(3) { Some(content) } else { None };
    if random.one_in(6) {
        spec.digest = None;
    }
    spec
}
