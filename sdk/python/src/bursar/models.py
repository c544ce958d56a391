"""The shapes of requests and answers. Generated from docs/openapi.json by scripts/generate.py."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, Union

from typing_extensions import NotRequired, TypedDict


class ActedAnswer(TypedDict):
    """The result of an operation on several jobs."""

    done: int
    """The number of jobs that were changed."""
    matched: int
    """The number of jobs that were selected."""
    more: NotRequired[bool]
    """A dry run stopped counting: more jobs match than `matched` says."""
    next: NotRequired[str | None]
    """The `cursor` of the next request; `null` if no job is left."""
    refused: int
    """The number of jobs whose state did not allow the change."""


class ActivityAnswer(TypedDict):
    """What happened lately in a tenant: the answer of `GET /v1/activity`."""

    minutes: int
    """The number of minutes in each list of `scopes`."""
    notable: list[EventAnswer]
    """The latest events that an operator may have to look at: thresholds, freezes, trips, overruns, late commits. Newest first."""
    refusals: NotRequired[list[RefusalsAnswer]]
    """How often limits have refused charges since then, the latest refusal first, at most 100."""
    scopes: list[ScopeActivity]
    """The scopes with the largest spend, at most 20."""
    since: NotRequired[str | None]
    """The first minute of `scopes`. Activity before it is not known."""
    started_at: NotRequired[str | None]
    """When this server started. It counts refusals and sees workers from then on; other servers count their own."""
    workers: NotRequired[list[WorkerSeenAnswer]]
    """Workers that have asked this server for jobs within the last hour: first those that wait, at most 1,000."""


class ActorAnswer(TypedDict):
    """The caller of a request."""

    id: NotRequired[str | None]
    """The id of the caller; missing for `system` and `anonymous`."""
    kind: str
    """`system`, `user`, `job`, `worker`, `agent` or `anonymous`."""


class ActualBody(TypedDict):
    """The units spent on one scope of a hold."""

    amount: int
    """The units spent."""
    scope: str


class AttemptAnswer(TypedDict):
    """One attempt of a job."""

    attempt: int
    """The number of the attempt. It starts at 1 again if the job is retried after its end."""
    began_at: NotRequired[str | None]

    end: NotRequired[str | None]
    """`succeeded`, `failed`, `rescued` (the lease expired or the deadline passed), `snoozed` or `returned`."""
    ended_at: NotRequired[str | None]
    """When the attempt ended; `null` while it runs."""
    error: NotRequired[ErrorAnswer | None]
    """The error, if the attempt failed or was rescued."""
    fence: int
    """The number of the lease."""
    worker: str


class BalanceAnswer(TypedDict):
    """The posted and held units of one window."""

    end: NotRequired[str | None]
    """The end of a calendar window; `null` for other windows."""
    held: int
    """The units set aside by holds."""
    length_ms: NotRequired[int | None]
    """The length of a `rolling` window or the refill period of a `bucket`, in milliseconds."""
    limit: NotRequired[int | None]
    """The limit of the budget; `null` if the budget has no limit over this window."""
    posted: int
    """The units spent."""
    refill: NotRequired[int | None]
    """The units that a `bucket` regains in `length_ms`."""
    remaining: NotRequired[int | None]
    """The units that are left; `null` without a limit, or if the window has ended and this build does not know its time zone."""
    start: NotRequired[str | None]
    """The start of a calendar window; `null` for other windows."""
    unit: NotRequired[Unit]
    """The unit of the amounts; one without a name if the scope has no budget."""
    week_start: NotRequired[Weekday | None]
    """The first day of a `week`."""
    window: str
    """`lifetime`, `rolling`, `bucket`, `hour`, `day`, `week`, `month` or `year`."""
    zone: NotRequired[str | None]
    """The time zone of a calendar window."""


class BeatItem(TypedDict):
    """A heartbeat, which extends the lease of a job."""

    fence: int
    """The fence of the lease."""
    id: str

    progress: NotRequired[ProgressFields | None]
    """The progress of the job, which it keeps and which is sent to listeners."""


class BeatenAnswer(TypedDict):
    """The answer to a heartbeat."""

    expires_at: NotRequired[str | None]
    """When the lease expires unless another heartbeat extends it."""
    order: Order
    """What the worker must do now."""


class BlobAnswer(TypedDict):
    """A blob: what is known about bytes that a storage backend keeps."""

    backend: str
    """The storage backend that has its bytes: `local` or `s3`."""
    content_type: str
    """Its media type, such as `image/png`."""
    created_at: NotRequired[str | None]
    """When its upload began."""
    created_by: ActorAnswer
    """The caller that uploaded it."""
    deleted_at: NotRequired[str | None]
    """When it was deleted; `null` if it is not."""
    filename: NotRequired[str | None]
    """The file name that it is offered under."""
    id: str

    jobs: int
    """The number of jobs that refer to it."""
    metadata: NotRequired[Any]
    """JSON that is stored with the blob for its owner."""
    namespace: str

    references: list[str]
    """The references of the application, by name."""
    sha256: NotRequired[str | None]
    """The SHA-256 of its bytes, in hexadecimal; while it is uploaded, the announced one."""
    size: NotRequired[int | None]
    """Its length in bytes; while it is uploaded, the announced one."""
    state: BlobStateWord


class BlobCapabilities(TypedDict):
    """What a worker may do with blobs."""

    read: NotRequired[list[Pattern]]
    """Namespaces it may read."""
    write: NotRequired[list[Pattern]]
    """Namespaces it may write."""


class BudgetAnswer(TypedDict):
    """The current state of a budget: the answer of `GET /v1/budgets/{scope}`."""

    balances: list[BalanceAnswer]
    """The posted and held units of each window: first those that the budget limits, in the order of its limits' first use, then the others. Every scope has a balance over its `lifetime`, also without a limit over it."""
    freeze: NotRequired[FreezeAnswer | None]
    """Why the scope is frozen; missing if it is not."""
    frozen: bool
    """Whether the scope refuses new charges."""
    hold: NotRequired[HoldPolicyBody]
    """The rules for holds on this scope."""
    limits: NotRequired[list[LimitBody]]
    """The limits, at least one. A charge must fit all of them."""
    parent: NotRequired[str | None]
    """The parent budget. Every charge to this scope is charged to the parent as well, and must fit its limits."""
    reason: NotRequired[str | None]
    """Why the budget is changed; recorded in the journal."""
    refusals: NotRequired[list[RefusalsAnswer]]
    """How often its limits have refused charges since the server started; missing if none has."""
    scope: str

    shadow: NotRequired[bool]
    """Whether the budget is only tried out: its limits and its trip refuse nothing, and what they would have refused is recorded as `budget.would_refuse`. Limits given in a request, other budgets of a chain and an explicit freeze refuse as usual."""
    thresholds: NotRequired[list[int]]
    """Percentages of each limit, from 1 to 1000. An event is recorded when posted units reach one."""
    trip: NotRequired[LimitBody | None]
    """The scope freezes automatically when posted units exceed this limit."""
    unit: NotRequired[str]
    """The name of the unit, for display, such as `usd` or `tokens`. Once the budget has spend or holds, its unit and decimals cannot be changed."""
    unit_decimals: NotRequired[int | None]
    """The decimals of the unit, from 0 to 12. Amounts are whole numbers of its smallest part: with 6 decimals, 25000000 is shown as 25.00. Default: 6 for `usd`, `eur` and `gbp`, else 0."""
    unit_symbol: NotRequired[str | None]
    """The symbol that is shown before amounts, such as `$`; default: that of `usd`, `eur` or `gbp`, else none."""


class BudgetBody(TypedDict):
    """The definition of a budget: the body of `PUT /v1/budgets/{scope}`. It replaces the whole definition."""

    balances: NotRequired[Any]
    """Ignored: a field of the answer, which may be sent back."""
    freeze: NotRequired[Any]
    """Ignored: a field of the answer, which may be sent back."""
    frozen: NotRequired[Any]
    """Ignored: a field of the answer, which may be sent back."""
    hold: NotRequired[HoldPolicyBody]
    """The rules for holds on this scope."""
    limits: NotRequired[list[LimitBody]]
    """The limits, at least one. A charge must fit all of them."""
    parent: NotRequired[str | None]
    """The parent budget. Every charge to this scope is charged to the parent as well, and must fit its limits."""
    reason: NotRequired[str | None]
    """Why the budget is changed; recorded in the journal."""
    refusals: NotRequired[Any]
    """Ignored: a field of the answer, which may be sent back."""
    scope: NotRequired[Any]
    """Ignored: a field of the answer, which may be sent back."""
    shadow: NotRequired[bool]
    """Whether the budget is only tried out: its limits and its trip refuse nothing, and what they would have refused is recorded as `budget.would_refuse`. Limits given in a request, other budgets of a chain and an explicit freeze refuse as usual."""
    thresholds: NotRequired[list[int]]
    """Percentages of each limit, from 1 to 1000. An event is recorded when posted units reach one."""
    trip: NotRequired[LimitBody | None]
    """The scope freezes automatically when posted units exceed this limit."""
    unit: NotRequired[str]
    """The name of the unit, for display, such as `usd` or `tokens`. Once the budget has spend or holds, its unit and decimals cannot be changed."""
    unit_decimals: NotRequired[int | None]
    """The decimals of the unit, from 0 to 12. Amounts are whole numbers of its smallest part: with 6 decimals, 25000000 is shown as 25.00. Default: 6 for `usd`, `eur` and `gbp`, else 0."""
    unit_symbol: NotRequired[str | None]
    """The symbol that is shown before amounts, such as `$`; default: that of `usd`, `eur` or `gbp`, else none."""


class BulkBody(TypedDict):
    """Jobs to enqueue: the body of `POST /v1/jobs/bulk`."""

    jobs: list[JobBody]


class Capabilities(TypedDict):
    """What a worker may do, as lists of patterns. An empty list allows nothing."""

    blobs: NotRequired[BlobCapabilities]
    """What it may do with blobs."""
    charges: NotRequired[list[Pattern]]
    """Scopes it may charge for jobs that have no hold."""
    events: NotRequired[list[Pattern]]
    """Events it may emit."""
    kinds: NotRequired[list[Pattern]]
    """Kinds of jobs it may work on."""
    mutations: NotRequired[list[Pattern]]
    """Other operations it may call."""
    queues: NotRequired[list[Pattern]]
    """Queues it may lease from."""


class ChargeAnswer(TypedDict):
    """A charge, and what each limit leaves after it."""

    actual: NotRequired[int | None]
    """The units that were committed; missing while they are held."""
    amount: int
    """The units charged or held."""
    ancestors: NotRequired[list[str]]
    """The ancestors of the scope, which were charged the same units."""
    balances: list[LeftAnswer]
    """What each limit leaves."""
    scope: str


class ChargeBody(TypedDict):
    """Units to charge to a scope."""

    amount: int
    """The units to charge."""
    limits: NotRequired[list[LimitBody]]
    """Limits that this charge must fit, in addition to those of the scope's budget."""
    scope: str


class CheckedAnswer(TypedDict):
    """The number of rows that were checked."""

    holds: int

    jobs: int

    scopes: int


class ClampedAnswer(TypedDict):
    """A time to live or an extension that the policies of budgets changed."""

    granted_ms: int
    """What the hold got, in milliseconds."""
    requested_ms: int
    """What was requested, in milliseconds."""


class CommandAnswer(TypedDict):
    """The result of a command."""

    dry_run: bool
    """The command was only checked."""
    grants: list[RedeemedAnswer]
    """The grants that were redeemed."""
    hold: NotRequired[PlacedAnswer | None]
    """The hold that was placed."""
    id: NotRequired[str | None]
    """The id of the command; missing if it was only checked."""
    jobs: list[EnqueuedAnswer]
    """The jobs that were enqueued, in the order of the request; if the command was only checked, those that exist already."""
    posted: list[ChargeAnswer]
    """The charges that were posted at once."""
    replayed: bool
    """The command was executed earlier under the same idempotency key; this is that result."""
    warnings: NotRequired[list[str]]
    """`ttl_lowered` or `ttl_raised` if the hold does not live as long as requested; `would_refuse` if `would_refuse` is not empty."""
    would_refuse: NotRequired[list[WouldRefuseAnswer]]
    """What budgets in shadow mode would have refused."""


class CommandBody(TypedDict):
    """Charges, redemptions and jobs that are executed together or not at all."""

    charges: NotRequired[list[ChargeBody]]
    """The units to charge."""
    context: NotRequired[ContextBody]
    """What the journal records with the command."""
    dry_run: NotRequired[bool]
    """Check the command without executing it."""
    jobs: NotRequired[list[JobBody]]
    """The jobs to enqueue."""
    on_expiry: NotRequired[OnExpiryBody | None]
    """What the expiry of the hold does; only with `"settle": "hold"`. Default: it frees the units."""
    redeem: NotRequired[list[RedeemBody]]
    """The grants to redeem."""
    references: NotRequired[list[ReferenceBody]]
    """References of the application to blobs, which keep them from being collected."""
    settle: NotRequired[SettleWord]
    """When the charges are settled; default: `now`, which spends the units at once."""
    ttl: NotRequired[str | None]
    """The same as `ttl_ms`, as a duration such as `10m` or `1h30m`."""
    ttl_ms: NotRequired[int | None]
    """The time to live of the hold, in milliseconds; only with `"settle": "hold"`. Default: the budget's setting."""


class CommitBlobBody(TypedDict):
    """The end of a signed upload."""

    parts: NotRequired[list[PartBody]]
    """The parts of an upload in parts."""
    upload_id: NotRequired[str | None]
    """The id of an upload in parts."""


class CommitBody(TypedDict):
    """The units that were spent: `actual`, or `actuals`, or neither to commit exactly the held units."""

    actual: NotRequired[int | None]
    """The units spent, for a hold with one charge."""
    actuals: NotRequired[list[ActualBody]]
    """The units spent on each scope, for a hold with several charges."""


class CompleteBody(TypedDict):
    """The successful end of a job."""

    blobs: NotRequired[list[str]]
    """The blobs that the job made. They are not collected while the job is kept."""
    fence: int
    """The fence of the lease."""
    result: NotRequired[Any]
    """JSON that is stored as the result; default: `null`."""
    usage: NotRequired[list[Usage] | None]
    """The units spent; default: the held units. An empty list means that nothing was spent."""


class CompleteItem(TypedDict):
    """The successful end of a job."""

    blobs: NotRequired[list[str]]
    """The blobs that the job made. They are not collected while the job is kept."""
    fence: int
    """The fence of the lease."""
    id: str

    result: NotRequired[Any]
    """JSON that is stored as the result; default: `null`."""
    usage: NotRequired[list[Usage] | None]
    """The units spent; default: the held units. An empty list means that nothing was spent."""


class ContextBody(TypedDict):
    """What the journal records with a command."""

    correlation_id: NotRequired[str | None]
    """An id of the caller's own that connects entries of the journal."""
    reason: NotRequired[str | None]
    """Why the command is submitted."""


class CostAnswer(TypedDict):
    """Units charged for a job on one scope."""

    amount: int
    """The units charged."""
    scope: str


class CredentialAnswer(TypedDict):
    """A credential, without its token."""

    capabilities: NotRequired[Capabilities | None]
    """The capabilities of a worker; missing for an API key."""
    expires_at: NotRequired[str | None]
    """When the credential expires; `null`: never."""
    id: str

    last_used_at: NotRequired[str | None]
    """When the token was last used, to the hour; missing in lists."""
    name: str

    role: NotRequired[Role | None]
    """The role of an API key; missing for a worker."""
    state: str
    """`good`, `expired` or `revoked`."""


class CreditBody(TypedDict):
    """Units to give back to a scope."""

    amount: int
    """The units to give back. More than the scope has spent is credited too, with a warning in the answer."""
    hold: NotRequired[str | None]
    """The hold that was charged too much. The credit counts at the time when the hold was placed; default: now."""
    reason: NotRequired[str | None]
    """Why the units are given back; recorded in the journal."""


class CreditedAnswer(TypedDict):
    """A credit, and what each limit leaves after it."""

    actual: NotRequired[int | None]
    """The units that were committed; missing while they are held."""
    amount: int
    """The units charged or held."""
    ancestors: NotRequired[list[str]]
    """The ancestors of the scope, which were charged the same units."""
    balances: list[LeftAnswer]
    """What each limit leaves."""
    excess: NotRequired[int]
    """The units credited above all that the scope has spent; its limits admit that much more than their amounts."""
    scope: str

    warnings: NotRequired[list[str]]
    """`credit_exceeds_spend` if `excess` is above 0; else empty."""


class DayCostAnswer(TypedDict):
    """The units charged for jobs on one day."""

    amount: int
    """The units charged."""
    day: str
    """The day in UTC, such as `2026-11-01`."""
    kind: str

    queue: str

    scope: str


class DeadGroupAnswer(TypedDict):
    """The dead jobs of a queue and kind that have the same error."""

    count: int
    """The number of dead jobs."""
    error: ErrorAnswer
    """The error of the job that died last. Its fingerprint is that of all jobs of the group."""
    first_at: str
    """When the first of the jobs died."""
    kind: str

    last_at: str
    """When the last of the jobs died."""
    queue: str


class EditBody(TypedDict):
    """A change of one waiting job."""

    delay: NotRequired[str | None]
    """The same as `delay_ms`, as a duration such as `10m` or `1h30m`."""
    delay_ms: NotRequired[int | None]
    """When the job is ready, in milliseconds from now; default: unchanged."""
    priority: NotRequired[int | None]
    """The new priority; default: unchanged."""
    reason: NotRequired[str | None]
    """Why the job is changed; recorded in the journal."""


class EditManyBody(TypedDict):
    """A change of waiting jobs. Either `ids` or `filter` is required."""

    cursor: NotRequired[str | None]
    """The `next` of an earlier answer, to continue there; only with `filter`."""
    delay: NotRequired[str | None]
    """The same as `delay_ms`, as a duration such as `10m` or `1h30m`."""
    delay_ms: NotRequired[int | None]
    """When the jobs are ready, in milliseconds from now; default: unchanged."""
    dry_run: NotRequired[bool]
    """Only count the jobs."""
    filter: NotRequired[FilterBody | None]
    """All jobs that match."""
    ids: NotRequired[list[str]]
    """The jobs, by id."""
    limit: NotRequired[int | None]
    """The number of jobs after which to answer; default: 10,000."""
    priority: NotRequired[int | None]
    """The new priority; default: unchanged."""
    reason: NotRequired[str | None]
    """Why the jobs are changed; recorded in the journal."""


class EmitBody(TypedDict):
    """An event of the application that a worker emits about its job."""

    data: NotRequired[Any]
    """JSON for listeners; default: `null`. At most 16 KiB."""
    event: str
    """The name of the event, such as `preview.ready`."""
    fence: int
    """The fence of the lease."""


class EnqueuedAnswer(TypedDict):
    """A job that was enqueued."""

    created: bool
    """`false`: the queue already had a job with this idempotency key, and this is its id."""
    id: str


class EnqueuedJobsAnswer(TypedDict):
    """Jobs that were enqueued, in the order of the request."""

    jobs: list[EnqueuedAnswer]


class ErrorAnswer(TypedDict):
    """The error of an attempt."""

    fingerprint: str
    """A hash that is equal for errors that differ only in numbers."""
    kind: str
    """The type of the error, such as `timeout`."""
    message: str


class ErrorBody(TypedDict):
    """The error of a failed attempt."""

    kind: str
    """The type of the error, such as `timeout`."""
    message: NotRequired[str]


class EventAnswer(TypedDict):
    """An event of the journal."""

    actor: ActorAnswer
    """The caller of the command."""
    at: NotRequired[str | None]
    """When the event happened."""
    command: str
    """The command that caused the event."""
    correlation_id: NotRequired[str | None]
    """The correlation id that the caller gave."""
    data: Any
    """The fields of the event; they depend on `kind`."""
    kind: str
    """The type of the event, such as `hold.placed`."""
    position: int
    """The position in the journal: without gaps, in the order of commits."""
    reason: NotRequired[str | None]
    """The reason that the caller gave."""
    stream: StreamAnswer
    """The object that the event changed."""
    tenant: str

    traceparent: NotRequired[str | None]
    """The W3C trace context in which the job was enqueued; for events of other objects, that of the request."""
    version: int
    """The version of that object after the event."""


class ExtendBody(TypedDict):
    """An extension of a hold."""

    by: NotRequired[str]
    """The same as `by_ms`, as a duration such as `10m` or `1h30m`; one of the two is required."""
    by_ms: NotRequired[int]
    """How much later the hold expires, in milliseconds."""


class ExtendedAnswer(TypedDict):
    """A hold that was extended."""

    clamped: NotRequired[ClampedAnswer | None]
    """The requested extension and the one that the budgets allow; missing if they are the same."""
    expires_at: NotRequired[str | None]
    """The new time of expiry."""
    id: str

    warnings: NotRequired[list[str]]
    """`ttl_lowered` if the hold was extended by less than requested; else empty."""


class FailBody(TypedDict):
    """A failed attempt."""

    error: ErrorBody
    """What went wrong."""
    fence: int
    """The fence of the lease."""
    retry_after: NotRequired[str | None]
    """The same as `retry_after_ms`, as a duration such as `10m` or `1h30m`."""
    retry_after_ms: NotRequired[int | None]
    """How long to wait before the next attempt, in milliseconds; default: the delay of the retry policy."""
    retryable: NotRequired[bool]
    """Whether another attempt may succeed; `false` makes the job dead. Default: `true`."""
    usage: NotRequired[list[Usage] | None]
    """The units spent by this attempt; default: none."""


class FailItem(TypedDict):
    """A failed attempt."""

    error: ErrorBody
    """What went wrong."""
    fence: int
    """The fence of the lease."""
    id: str

    retry_after: NotRequired[str | None]
    """The same as `retry_after_ms`, as a duration such as `10m` or `1h30m`."""
    retry_after_ms: NotRequired[int | None]
    """How long to wait before the next attempt, in milliseconds; default: the delay of the retry policy."""
    retryable: NotRequired[bool]
    """Whether another attempt may succeed; `false` makes the job dead. Default: `true`."""
    usage: NotRequired[list[Usage] | None]
    """The units spent by this attempt; default: none."""


class FiguresAnswer(TypedDict):
    """The statistics of a queue."""

    cancelled: int
    """The jobs that were cancelled in the period."""
    dead: int
    """The jobs that died in the period."""
    enqueued: int
    """The jobs that were enqueued in the period."""
    failed_attempts: int
    """The attempts that failed in the period."""
    oldest_lease: NotRequired[str | None]
    """When the longest current lease began."""
    oldest_waiting: NotRequired[str | None]
    """When the job that has waited longest became ready. It may be too early if many jobs of its kind have a higher priority."""
    over_ms: int
    """The period of the following counts, in milliseconds; it ends with the current minute."""
    series: NotRequired[SeriesAnswer | None]
    """The counts by minute, with `series=true`."""
    states: dict[str, Any]
    """The number of jobs in each state."""
    succeeded: int
    """The jobs that succeeded in the period."""


class FilterBody(TypedDict):
    """The properties of jobs. A job matches if it has all that are given."""

    fingerprint: NotRequired[str | None]
    """The fingerprint of the job's last error."""
    key: NotRequired[str | None]
    """The flow key."""
    kind: NotRequired[str | None]
    """The kind; `video.*` matches every kind that begins with `video.`."""
    queue: NotRequired[str | None]

    state: NotRequired[JobState | None]
    """The state; not allowed for operations on dead jobs."""
    tag: NotRequired[str | None]
    """A tag that the job has."""


class FinishedAnswer(TypedDict):
    """The state of a job after an operation on it."""

    cost: list[CostAnswer]
    """The units charged for the job so far, by scope."""
    hold: NotRequired[str | None]
    """The hold of the job, or its last one."""
    id: str

    overrun: NotRequired[int]
    """The units that the lease which this request ended spent above the job's hold."""
    run_at: NotRequired[str | None]
    """When the job runs again; `null` if it does not."""
    state: JobState

    warnings: NotRequired[list[str]]
    """`overrun` if `overrun` is above 0; else empty."""


class FreezeAnswerOrder(TypedDict):
    """A request froze the scope."""

    actor: ActorAnswer
    """The caller that froze it."""
    by: Literal["order"]

    reason: NotRequired[str | None]
    """The reason that the caller gave."""


class FreezeAnswerTrip(TypedDict):
    """Posted units exceeded the trip limit."""

    by: Literal["trip"]

    length_ms: NotRequired[int | None]
    """The length of a `rolling` window or the refill period of a `bucket`, in milliseconds."""
    refill: NotRequired[int | None]
    """The units that a `bucket` regains in `length_ms`."""
    until: NotRequired[str | None]
    """When the window ends and the scope unfreezes; `null` for a lifetime or rolling window, which has no end."""
    week_start: NotRequired[Weekday | None]
    """The first day of a `week`."""
    window: str
    """`lifetime`, `rolling`, `bucket`, `hour`, `day`, `week`, `month` or `year`."""
    zone: NotRequired[str | None]
    """The time zone of a calendar window."""


class GcAnswer(TypedDict):
    """What a collection did."""

    bytes: int
    """The bytes of these; of a dry run, those that are due."""
    collected: int
    """The blobs that were removed."""
    dry_run: bool
    """Whether nothing was changed."""
    due: int
    """The blobs that were due."""
    failed: int
    """The blobs whose bytes could not be deleted; the next collection tries them again."""
    more: bool
    """Whether more may be due."""


class GcBody(TypedDict):
    """A collection to run."""

    dry_run: NotRequired[bool]
    """Whether to report only what is due; default: true."""
    limit: NotRequired[int | None]
    """The most blobs to collect; default: 1,000."""


class GrantAnswer(TypedDict):
    """A grant, without its token."""

    expires_at: NotRequired[str | None]
    """Until when the grant can be redeemed."""
    id: str

    payload: Any
    """Any JSON."""
    purpose: str

    state: str
    """`open`, `redeemed`, `revoked` or `expired`."""
    subject: str


class HealthAnswer(TypedDict):
    status: str


class HeartbeatBody(TypedDict):
    """A heartbeat, which extends the lease of a job."""

    fence: int
    """The fence of the lease."""
    progress: NotRequired[ProgressFields | None]
    """The progress of the job, which it keeps and which is sent to listeners."""


class HeldAnswer(TypedDict):
    """The units that the holds of jobs set aside now."""

    amount: int
    """The units held, summed over all scopes with this unit."""
    kind: str

    queue: str

    unit: str
    """The unit of the budgets; empty if they name none."""


class HeldChargeAnswer(TypedDict):
    """One charge of a hold."""

    actual: NotRequired[int | None]
    """The units committed; `null` until the hold is committed."""
    amount: int
    """The units held."""
    ancestors: list[str]
    """The ancestors of the scope, which hold the same units."""
    scope: str


class HeldUnitsAnswer(TypedDict):
    """Units that the hold of a job sets aside on one scope."""

    amount: int
    """The units held."""
    scope: str


class HoldAnswer(TypedDict):
    """The current state of a hold: the answer of `GET /v1/holds/{id}`."""

    charges: list[HeldChargeAnswer]
    """The charges of the hold."""
    expires_at: NotRequired[str | None]
    """When the hold expires; `null` if it lasts until its job ends."""
    id: str

    job: NotRequired[str | None]
    """The job that settles the hold, if it belongs to one."""
    on_expiry: NotRequired[OnExpiryBody | None]
    """The units that the expiry posts; missing if it frees them."""
    placed_at: NotRequired[str | None]

    state: HoldState


class HoldBody(TypedDict):
    """A hold to place."""

    charges: list[ChargeBody]
    """The units to hold."""
    context: NotRequired[ContextBody]
    """What the journal records with the hold."""
    dry_run: NotRequired[bool]
    """Check the hold without placing it."""
    on_expiry: NotRequired[OnExpiryBody | None]
    """What the expiry of the hold does; default: it frees the units."""
    ttl: NotRequired[str | None]
    """The same as `ttl_ms`, as a duration such as `10m` or `1h30m`."""
    ttl_ms: NotRequired[int | None]
    """The time to live of the hold, in milliseconds; default: the budget's setting."""


class HoldPolicyBody(TypedDict):
    """The rules for holds on a budget."""

    late: NotRequired[Cover]
    """Whether a commit after expiry is charged or refused."""
    life_max: NotRequired[str | None]
    """The same as `life_ms_max`, as a duration such as `10m` or `1h30m`."""
    life_ms_max: NotRequired[int | None]
    """The longest time from placing a hold to its expiry over all extensions, in milliseconds; `null`: no bound."""
    overrun: NotRequired[Cover]
    """Whether a commit above the held amount is charged or refused."""
    ttl: NotRequired[str | None]
    """The same as `ttl_ms`, as a duration such as `10m` or `1h30m`."""
    ttl_max: NotRequired[str | None]
    """The same as `ttl_ms_max`, as a duration such as `10m` or `1h30m`."""
    ttl_min: NotRequired[str]
    """The same as `ttl_ms_min`, as a duration such as `10m` or `1h30m`."""
    ttl_ms: NotRequired[int | None]
    """The time to live of a hold that requests none, in milliseconds; `null`: the server's default."""
    ttl_ms_max: NotRequired[int | None]
    """The longest time to live of a hold, in milliseconds; longer requests are lowered to it, with a warning in the answer. `null`: the server's default, one hour unless it is configured."""
    ttl_ms_min: NotRequired[int]
    """The shortest time to live of a hold, in milliseconds."""


class IssuedAnswer(TypedDict):
    """A token that was created."""

    expires_at: NotRequired[str | None]
    """When the token expires; `null`: never."""
    id: str

    token: NotRequired[str | None]
    """The token. It is returned only once: `null` when the request is replayed."""


class ItemAnswerOfBeatenAnswerProblem(TypedDict):
    """The report was not accepted; other reports of the request are not affected."""

    problem: Problem


class ItemAnswerOfFinishedAnswerProblem(TypedDict):
    """The report was not accepted; other reports of the request are not affected."""

    problem: Problem


class ItemsAnswerOfBeatenAnswer(TypedDict):
    """The answers to reports on several jobs, in the order of the request."""

    items: list[ItemAnswerOfBeatenAnswer]


class ItemsAnswerOfFinishedAnswer(TypedDict):
    """The answers to reports on several jobs, in the order of the request."""

    items: list[ItemAnswerOfFinishedAnswer]


class ItemsBodyOfBeatItem(TypedDict):
    """Reports on several jobs."""

    items: list[BeatItem]


class ItemsBodyOfCompleteItem(TypedDict):
    """Reports on several jobs."""

    items: list[CompleteItem]


class ItemsBodyOfFailItem(TypedDict):
    """Reports on several jobs."""

    items: list[FailItem]


class ItemsBodyOfProgressItem(TypedDict):
    """Reports on several jobs."""

    items: list[ProgressItem]


class ItemsBodyOfReturnItem(TypedDict):
    """Reports on several jobs."""

    items: list[ReturnItem]


class ItemsBodyOfSnoozeItem(TypedDict):
    """Reports on several jobs."""

    items: list[SnoozeItem]


class JobAnswer(TypedDict):
    """The current state of a job."""

    acts: NotRequired[list[JobAct]]
    """What can be done with the job in its state."""
    attempts: int
    """The number of attempts so far."""
    awaits: NotRequired[str | None]
    """The scope whose budget the job waits for."""
    blobs: NotRequired[list[str]]
    """The blobs that the job uses, and those that it made."""
    cancelling: bool
    """The job was cancelled while it was leased, and its worker has not stopped yet."""
    checkpoint: NotRequired[Any]
    """The last checkpoint that a worker reported, which the next lease carries; `null` if there is none."""
    cost: list[CostAnswer]
    """The units charged for the job so far, by scope."""
    enqueued_at: NotRequired[str | None]

    error: NotRequired[ErrorAnswer | None]
    """The error of the last failed attempt."""
    hold: NotRequired[str | None]
    """The hold that pays for the job."""
    id: str

    idempotency_key: NotRequired[str | None]

    key: NotRequired[str | None]

    kind: str

    lease: NotRequired[LeaseAnswer | None]
    """The current lease; `null` while no worker has the job."""
    max_attempts: NotRequired[int | None]
    """The number of failed attempts after which the job is dead; `null`: the setting of its queue."""
    metadata: Any
    """Any JSON."""
    parent: NotRequired[str | None]

    payload: Any
    """Any JSON."""
    priority: int

    progress: NotRequired[ProgressAnswer | None]
    """The last progress that a worker reported; `null` if there is none."""
    queue: str

    result: Any
    """The JSON that the worker returned."""
    run_at: NotRequired[str | None]
    """When the job is or was ready; for a finished job, when it ended."""
    state: JobState

    tags: list[str]

    traceparent: NotRequired[str | None]
    """The W3C trace context in which the job was enqueued."""


class JobBody(TypedDict):
    """A job to enqueue."""

    blobs: NotRequired[list[str]]
    """The blobs that the job uses, at most 100 together with those that it makes. They are not collected while the job is kept."""
    deadline: NotRequired[str | None]
    """The same as `deadline_ms`, as a duration such as `10m` or `1h30m`."""
    deadline_ms: NotRequired[int | None]
    """How long one attempt may run, in milliseconds; default: the queue's setting."""
    delay: NotRequired[str]
    """The same as `delay_ms`, as a duration such as `10m` or `1h30m`."""
    delay_ms: NotRequired[int]
    """How long to wait before the job is ready, in milliseconds; default: 0."""
    idempotency_key: NotRequired[str | None]
    """Makes the job unique in its queue: a second job with the same key is not enqueued."""
    key: NotRequired[str | None]
    """The flow key: the queue can limit concurrency and rate for each key."""
    kind: str
    """The type of work; a worker chooses its handler by it."""
    max_attempts: NotRequired[int | None]
    """The number of failed attempts after which the job is dead; default: that of `retry`, else the queue's setting."""
    metadata: NotRequired[Any]
    """JSON that is stored with the job for its owner; default: `null`."""
    parent: NotRequired[str | None]
    """The job that caused this one."""
    payload: NotRequired[Any]
    """JSON for the worker; default: `null`."""
    payload_from_grant: NotRequired[bool]
    """Use the payload of the first grant that the command redeems, instead of `payload`."""
    priority: NotRequired[int]
    """Jobs with a higher priority run first; default: 0. A difference of 1 outweighs one minute of waiting."""
    queue: str

    retry: NotRequired[RetryBody | None]
    """How the job is retried; default: the queue's setting."""
    tags: NotRequired[list[str]]
    """Tags to find the job by."""


class KeyBody(TypedDict):
    """An API key to create."""

    expires_in: NotRequired[str | None]
    """The same as `expires_in_ms`, as a duration such as `10m` or `1h30m`."""
    expires_in_ms: NotRequired[int | None]
    """How long the key is valid, in milliseconds; default: 90 days."""
    name: str

    role: Literal["admin", "user", "agent", "viewer", "monitor"]
    """What the key permits: a role other than `operator` and `worker`, which have tokens of their own."""


class LeaseAnswer(TypedDict):
    """The lease of a job."""

    expires_at: NotRequired[str | None]
    """When the lease expires unless a heartbeat extends it."""
    fence: int
    """The number of the lease. Every report on the job must carry it."""
    since: NotRequired[str | None]
    """When the lease began."""
    worker: str
    """The worker that has the lease."""


class LeaseBody(TypedDict):
    """A request for jobs to work on."""

    capacity: NotRequired[int]
    """The maximum number of jobs; default: 1."""
    kinds: NotRequired[list[str]]
    """The kinds to lease. `video.*` matches every kind that begins with `video.`; default: all kinds that the worker may work on."""
    lease: NotRequired[str | None]
    """The same as `lease_ms`, as a duration such as `10m` or `1h30m`."""
    lease_ms: NotRequired[int | None]
    """How long a lease lasts without a heartbeat, in milliseconds; default: the queue's setting."""
    queues: list[str]
    """The queues to lease from."""
    wait: NotRequired[str]
    """The same as `wait_ms`, as a duration such as `10m` or `1h30m`."""
    wait_ms: NotRequired[int]
    """How long to wait for a job if none is ready, in milliseconds; default: 0, at most one minute."""
    worker: NotRequired[str | None]
    """The name of the worker, if the token does not have one."""


class LeasedAnswer(TypedDict):
    """A job that was leased to a worker."""

    attempt: int
    """The number of this attempt, counted from 1."""
    blobs: NotRequired[list[str]]
    """The blobs that the job uses."""
    checkpoint: NotRequired[Any]
    """The last checkpoint that an earlier attempt reported: where to go on. `null` if there is none."""
    held: NotRequired[list[HeldUnitsAnswer] | None]
    """The units that the hold sets aside, by scope; empty if the job has no hold. `null` if the hold could not be read, or if the holds of all leased jobs together are too large for one answer."""
    hold: NotRequired[str | None]
    """The hold that pays for the job."""
    id: str

    idempotency_key: NotRequired[str | None]

    key: NotRequired[str | None]
    """The flow key."""
    kind: str

    lease: NotRequired[LeaseAnswer | None]

    max_attempts: NotRequired[int | None]
    """The number of failed attempts after which the job is dead; `null`: the setting of the job's retry policy or of its queue."""
    metadata: NotRequired[Any]
    """Any JSON."""
    payload: Any
    """Any JSON."""
    queue: str

    tags: NotRequired[list[str]]

    traceparent: NotRequired[str | None]
    """The W3C trace context for the worker's spans: that of the job or, if the server exports spans, of this attempt."""


class LeasedJobsAnswer(TypedDict):
    """The jobs that were leased; empty if none became ready in time."""

    jobs: list[LeasedAnswer]


class LeftAnswer(TypedDict):
    """The units that a limit leaves after a charge."""

    length_ms: NotRequired[int | None]
    """The length of a `rolling` window or the refill period of a `bucket`, in milliseconds."""
    limit: int

    refill: NotRequired[int | None]
    """The units that a `bucket` regains in `length_ms`."""
    remaining: int
    """The units that are left."""
    scope: NotRequired[str | None]
    """The ancestor that has the limit; missing if it is the charged scope."""
    week_start: NotRequired[Weekday | None]
    """The first day of a `week`."""
    window: str
    """`lifetime`, `rolling`, `bucket`, `hour`, `day`, `week`, `month` or `year`."""
    zone: NotRequired[str | None]
    """The time zone of a calendar window."""


class LimitBody(TypedDict):
    """A limit: a number of units per window."""

    amount: int
    """The units that may be posted and held in the window; for a bucket, its capacity."""
    length: NotRequired[str | None]
    """The same as `length_ms`, as a duration such as `10m` or `1h30m`."""
    length_ms: NotRequired[int | None]
    """The length of a `rolling` window or the refill period of a `bucket`, in milliseconds."""
    refill: NotRequired[int | None]
    """The units that a `bucket` regains in `length_ms`."""
    week_start: NotRequired[Weekday | None]
    """The first day of a `week`; default: Monday."""
    window: str
    """`lifetime`, `rolling`, `bucket`, `hour`, `day`, `week`, `month` or `year`, with the fields that it needs; or all of it as text: `month@Europe/Berlin`, `week@UTC:sunday`, `rolling:1h`, `bucket:10000/h`."""
    zone: NotRequired[str | None]
    """The time zone of a calendar window, such as `Europe/Berlin`; default: UTC."""


class LinkAnswer(TypedDict):
    """A link that was created."""

    expires_at: NotRequired[str | None]
    """When it ends."""
    id: str
    """Its id, by which it can be revoked."""
    url: NotRequired[str | None]
    """The address, which needs no token. It is returned only once: `null` when the request is replayed."""


class LinkBody(TypedDict):
    """A link to create."""

    expires_in: NotRequired[str | None]
    """The same as `expires_in_ms`, as a duration such as `10m` or `1h30m`."""
    expires_in_ms: NotRequired[int | None]
    """How long it is valid, in milliseconds, at most seven days; default: one hour."""


class LinkInfo(TypedDict):
    """A link, without its address."""

    act: LinkAct
    """Whether it reads the blob or uploads its bytes."""
    blob: str
    """The blob that it opens."""
    expires_at: NotRequired[str | None]
    """When it ends."""
    id: str
    """Its id, by which it can be revoked."""
    state: str
    """`good`, `expired` or `revoked`."""


class MeteredOperationBody(TypedDict):
    """A request of a caller, as far as its price depends on it."""

    method: str
    """The HTTP method, such as `POST`."""
    path: str
    """The path, with its query if a price depends on it: `/claims?lens=trust`."""
    payload_bytes: NotRequired[int]
    """The size of the payload in bytes."""


class MintBody(TypedDict):
    """A grant to create."""

    payload: NotRequired[Any]
    """JSON that a redemption returns; default: `null`."""
    purpose: str
    """What the grant allows; a redemption must name the same purpose."""
    subject: str
    """The subject that may use the grant; a redemption must name the same subject."""
    ttl: NotRequired[str]
    """The same as `ttl_ms`, as a duration such as `10m` or `1h30m`; one of the two is required."""
    ttl_ms: NotRequired[int]
    """How long the grant can be redeemed, in milliseconds."""


class MintedAnswer(TypedDict):
    """A grant that was created."""

    expires_at: NotRequired[str | None]
    """Until when the grant can be redeemed."""
    id: str

    token: NotRequired[str | None]
    """The token. It is returned only once: `null` when the request is replayed."""


class MoveBody(TypedDict):
    """A move of one job to another queue."""

    queue: str

    reason: NotRequired[str | None]
    """Why the job is moved; recorded in the journal."""


class MoveManyBody(TypedDict):
    """A move of dead jobs to another queue. Either `ids` or `filter` is required."""

    cursor: NotRequired[str | None]
    """The `next` of an earlier answer, to continue there; only with `filter`."""
    dry_run: NotRequired[bool]
    """Only count the jobs."""
    filter: NotRequired[FilterBody | None]
    """All jobs that match."""
    ids: NotRequired[list[str]]
    """The jobs, by id."""
    limit: NotRequired[int | None]
    """The number of jobs after which to answer; default: 10,000."""
    reason: NotRequired[str | None]
    """Why the jobs are changed; recorded in the journal."""
    to: str
    """The queue to move them to."""


class NamespaceAnswer(TypedDict):
    """A namespace and its rules."""

    bytes_max: NotRequired[int]
    """The most bytes of one blob; default: 5 TiB."""
    charge: NotRequired[str | None]
    """The scope that stored bytes are charged to; `null`: none. It has a budget with lifetime limits only."""
    grace_ms: NotRequired[int]
    """How long a deleted blob can be restored, in milliseconds; default: 7 days."""
    name: str

    reason: NotRequired[str | None]
    """Why the namespace is changed; recorded in the journal."""
    unreferenced_ms: NotRequired[int | None]
    """How long a blob without references is kept, in milliseconds; `null`: until it is deleted."""


class NamespaceBody(TypedDict):
    """The rules of a namespace: the body of `PUT /v1/namespaces/{name}`. A field that is left out is set to its default."""

    bytes_max: NotRequired[int]
    """The most bytes of one blob; default: 5 TiB."""
    charge: NotRequired[str | None]
    """The scope that stored bytes are charged to; `null`: none. It has a budget with lifetime limits only."""
    grace: NotRequired[str]
    """The same as `grace_ms`, as a duration such as `10m` or `1h30m`."""
    grace_ms: NotRequired[int]
    """How long a deleted blob can be restored, in milliseconds; default: 7 days."""
    name: NotRequired[Any]
    """Ignored: a field of the answer, which may be sent back."""
    reason: NotRequired[str | None]
    """Why the namespace is changed; recorded in the journal."""
    unreferenced: NotRequired[str | None]
    """The same as `unreferenced_ms`, as a duration such as `10m` or `1h30m`."""
    unreferenced_ms: NotRequired[int | None]
    """How long a blob without references is kept, in milliseconds; `null`: until it is deleted."""


class NoFields(TypedDict):
    """A query or body without fields. Any field is an error that names it."""


class OnExpiryBody(TypedDict):
    """What the expiry of a hold does: it posts units, so that spend does not vanish with a process that died. A commit after the expiry corrects them to the actual units."""

    charge: int
    """The units of each charge to post at the instant of expiry; at most as many as it holds."""


class OrphanAnswer(TypedDict):
    """An object that no blob names."""

    backend: str
    """The backend that has it."""
    bytes: int
    """Its length in bytes."""
    path: str
    """Its name there."""


class OrphansAnswer(TypedDict):
    """What a scan found."""

    blobs: int
    """The live blobs that were looked at."""
    deleted: int
    """How many of them were deleted."""
    missing: list[str]
    """The live blobs whose bytes are missing, at most 1,000 of them."""
    missing_total: int
    """The number of all such blobs."""
    objects: int
    """The objects that were looked at."""
    orphan_bytes: int
    """Their bytes."""
    orphans: list[OrphanAnswer]
    """The objects that no blob names, at most 1,000 of them."""
    orphans_total: int
    """The number of all such objects."""


class OrphansBody(TypedDict):
    """A scan for orphans."""

    remove: NotRequired[bool]
    """Whether to delete the objects that no blob names and that are older than an hour; default: false."""


class PageOfAttemptAnswer(TypedDict):
    """One page of a list."""

    items: list[AttemptAnswer]
    """The items of this page."""
    next: NotRequired[str | None]
    """The cursor of the next page; `null` on the last page."""


class PageOfBlobAnswer(TypedDict):
    """One page of a list."""

    items: list[BlobAnswer]
    """The items of this page."""
    next: NotRequired[str | None]
    """The cursor of the next page; `null` on the last page."""


class PageOfBudgetAnswer(TypedDict):
    """One page of a list."""

    items: list[BudgetAnswer]
    """The items of this page."""
    next: NotRequired[str | None]
    """The cursor of the next page; `null` on the last page."""


class PageOfCredentialAnswer(TypedDict):
    """One page of a list."""

    items: list[CredentialAnswer]
    """The items of this page."""
    next: NotRequired[str | None]
    """The cursor of the next page; `null` on the last page."""


class PageOfDayCostAnswer(TypedDict):
    """One page of a list."""

    items: list[DayCostAnswer]
    """The items of this page."""
    next: NotRequired[str | None]
    """The cursor of the next page; `null` on the last page."""


class PageOfDeadGroupAnswer(TypedDict):
    """One page of a list."""

    items: list[DeadGroupAnswer]
    """The items of this page."""
    next: NotRequired[str | None]
    """The cursor of the next page; `null` on the last page."""


class PageOfEventAnswer(TypedDict):
    """One page of a list."""

    items: list[EventAnswer]
    """The items of this page."""
    next: NotRequired[str | None]
    """The cursor of the next page; `null` on the last page."""


class PageOfGrantAnswer(TypedDict):
    """One page of a list."""

    items: list[GrantAnswer]
    """The items of this page."""
    next: NotRequired[str | None]
    """The cursor of the next page; `null` on the last page."""


class PageOfHeldAnswer(TypedDict):
    """One page of a list."""

    items: list[HeldAnswer]
    """The items of this page."""
    next: NotRequired[str | None]
    """The cursor of the next page; `null` on the last page."""


class PageOfHoldAnswer(TypedDict):
    """One page of a list."""

    items: list[HoldAnswer]
    """The items of this page."""
    next: NotRequired[str | None]
    """The cursor of the next page; `null` on the last page."""


class PageOfJobAnswer(TypedDict):
    """One page of a list."""

    items: list[JobAnswer]
    """The items of this page."""
    next: NotRequired[str | None]
    """The cursor of the next page; `null` on the last page."""


class PageOfLinkInfo(TypedDict):
    """One page of a list."""

    items: list[LinkInfo]
    """The items of this page."""
    next: NotRequired[str | None]
    """The cursor of the next page; `null` on the last page."""


class PageOfNamespaceAnswer(TypedDict):
    """One page of a list."""

    items: list[NamespaceAnswer]
    """The items of this page."""
    next: NotRequired[str | None]
    """The cursor of the next page; `null` on the last page."""


class PageOfQueueAnswer(TypedDict):
    """One page of a list."""

    items: list[QueueAnswer]
    """The items of this page."""
    next: NotRequired[str | None]
    """The cursor of the next page; `null` on the last page."""


class PageOfScheduleAnswer(TypedDict):
    """One page of a list."""

    items: list[ScheduleAnswer]
    """The items of this page."""
    next: NotRequired[str | None]
    """The cursor of the next page; `null` on the last page."""


class PageOfTenantAnswer(TypedDict):
    """One page of a list."""

    items: list[TenantAnswer]
    """The items of this page."""
    next: NotRequired[str | None]
    """The cursor of the next page; `null` on the last page."""


class PartBody(TypedDict):
    """A part that was uploaded."""

    etag: str
    """The `ETag` that its upload was answered with."""
    number: int
    """Its number, from 1."""


class PartTarget(TypedDict):
    """Where a part of the bytes goes."""

    number: int
    """Its number, from 1."""
    offset: int
    """The position of its first byte."""
    size: int
    """Its length in bytes."""
    url: str
    """Its address. The answer has an `ETag` that the commit names."""


class PlacedAnswer(TypedDict):
    """A hold that was placed."""

    charges: list[ChargeAnswer]
    """The charges of the hold."""
    clamped: NotRequired[ClampedAnswer | None]
    """The requested time to live and the one that the budgets allow; missing if they are the same."""
    expires_at: NotRequired[str | None]
    """When the hold expires; `null` if it lasts until its job ends."""
    id: NotRequired[str | None]
    """The id of the hold; missing if the command was only checked."""
    state: HoldState


class PresignAnswer(TypedDict):
    """A signed upload."""

    blob: BlobAnswer

    upload: NotRequired[UploadTarget | None]
    """Where to send the bytes; `null` if the namespace has them already, so that the blob is live."""


class PresignBody(TypedDict):
    """A blob to upload by a signed request."""

    content_type: NotRequired[str | None]
    """Its media type; default: `application/octet-stream`."""
    expires_in: NotRequired[str | None]
    """The same as `expires_in_ms`, as a duration such as `10m` or `1h30m`."""
    expires_in_ms: NotRequired[int | None]
    """How long the signature is valid, in milliseconds, at most seven days; default: one hour."""
    filename: NotRequired[str | None]
    """The file name to offer it under."""
    metadata: NotRequired[Any]
    """JSON that is stored with the blob."""
    namespace: NotRequired[str | None]
    """Its namespace; default: `default`."""
    sha256: str
    """The SHA-256 of its bytes, in hexadecimal."""
    size: int
    """Its length in bytes."""


class Problem(TypedDict):
    """Why a request failed."""

    detail: str
    """What happened, and what the caller can do."""
    field: NotRequired[str | None]
    """The field of the request that is wrong: its path in the body, such as `charges[0].amount`, or the name of a parameter."""
    hint: NotRequired[str | None]
    """What the caller can do in this case."""
    id: NotRequired[str | None]
    """The hold or the job whose state does not allow the request, or the blob that does not exist."""
    reason: NotRequired[str | None]
    """Why the signature of the request is refused: a stable word, such as `replayed`."""
    request_id: NotRequired[str | None]
    """The id of the request in the server's log."""
    retry_after_ms: NotRequired[int | None]
    """How long to wait before a retry, in milliseconds. It is an estimate: a release can make room sooner, and other requests can take the room."""
    scope: NotRequired[str | None]
    """The scope that is unknown."""
    size: NotRequired[int | None]
    """The length of the blob, in bytes, whose range cannot be satisfied."""
    state: NotRequired[str | None]
    """The state of the hold or the job that does not allow the request."""
    status: int
    """The HTTP status."""
    title: str
    """A short text that describes the type."""
    type: str
    """The type, such as `/problems/refused`. Its last segment is stable."""
    violations: NotRequired[list[ViolationAnswer]]
    """Every limit, freeze and grant that refused the request."""


class ProgressAnswer(TypedDict):
    """The last progress report of a job."""

    at: NotRequired[str | None]
    """When it was received."""
    data: Any
    """JSON for programs."""
    fence: int
    """The number of the lease that it was reported under."""
    message: NotRequired[str | None]
    """A text for people."""
    percent: NotRequired[float | None]
    """The percentage that is done, from 0 to 100."""


class ProgressBody(TypedDict):
    """The progress of a job, which keeps the last report and sends it to listeners. It also extends the lease."""

    checkpoint: NotRequired[Any]
    """Where the work is: the next lease of the job carries it. It is in the journal. Default: the last checkpoint stays; `null` removes it. At most 16 KiB."""
    data: NotRequired[Any]
    """JSON for programs; default: `null`."""
    fence: int
    """The fence of the lease."""
    message: NotRequired[str | None]
    """A text for people."""
    percent: NotRequired[float | None]
    """The percentage that is done, from 0 to 100."""


class ProgressFields(TypedDict):
    """The progress of a job."""

    checkpoint: NotRequired[Any]
    """Where the work is: the next lease of the job carries it. It is in the journal. Default: the last checkpoint stays; `null` removes it. At most 16 KiB."""
    data: NotRequired[Any]
    """JSON for programs; default: `null`."""
    message: NotRequired[str | None]
    """A text for people."""
    percent: NotRequired[float | None]
    """The percentage that is done, from 0 to 100."""


class ProgressItem(TypedDict):
    """The progress of a job, which keeps the last report and sends it to listeners. It also extends the lease."""

    checkpoint: NotRequired[Any]
    """Where the work is: the next lease of the job carries it. It is in the journal. Default: the last checkpoint stays; `null` removes it. At most 16 KiB."""
    data: NotRequired[Any]
    """JSON for programs; default: `null`."""
    fence: int
    """The fence of the lease."""
    id: str

    message: NotRequired[str | None]
    """A text for people."""
    percent: NotRequired[float | None]
    """The percentage that is done, from 0 to 100."""


class QueueAnswer(TypedDict):
    """The settings of a queue and its statistics."""

    concurrency: NotRequired[int | None]
    """How many jobs may be leased at the same time; `null`: no limit."""
    deadline_ms: NotRequired[int | None]
    """How long one attempt may run, in milliseconds; `null`: no limit."""
    figures: FiguresAnswer

    key_concurrency: NotRequired[int | None]
    """How many jobs of one flow key may be leased at the same time; `null`: no limit."""
    key_rate: NotRequired[RateBody | None]
    """How many leases of one flow key may start per period; `null`: no limit."""
    lease_ms: NotRequired[int]
    """How long a lease lasts without a heartbeat, in milliseconds."""
    name: str

    paused: NotRequired[bool]
    """No job of a paused queue is leased."""
    rate: NotRequired[RateBody | None]
    """How many leases may start per period; `null`: no limit."""
    reason: NotRequired[str | None]
    """Why the queue is changed; recorded in the journal."""
    retention: NotRequired[RetentionBody]
    """How long finished jobs are kept."""
    retry: NotRequired[RetryBody]
    """How jobs are retried, unless a job has a policy of its own."""


class QueueBody(TypedDict):
    """The settings of a queue: the body of `PUT /v1/queues/{name}`. A field that is left out is set to its default."""

    concurrency: NotRequired[int | None]
    """How many jobs may be leased at the same time; `null`: no limit."""
    deadline: NotRequired[str | None]
    """The same as `deadline_ms`, as a duration such as `10m` or `1h30m`."""
    deadline_ms: NotRequired[int | None]
    """How long one attempt may run, in milliseconds; `null`: no limit."""
    figures: NotRequired[Any]
    """Ignored: a field of the answer, which may be sent back."""
    key_concurrency: NotRequired[int | None]
    """How many jobs of one flow key may be leased at the same time; `null`: no limit."""
    key_rate: NotRequired[RateBody | None]
    """How many leases of one flow key may start per period; `null`: no limit."""
    lease: NotRequired[str]
    """The same as `lease_ms`, as a duration such as `10m` or `1h30m`."""
    lease_ms: NotRequired[int]
    """How long a lease lasts without a heartbeat, in milliseconds."""
    name: NotRequired[Any]
    """Ignored: a field of the answer, which may be sent back."""
    paused: NotRequired[bool]
    """No job of a paused queue is leased."""
    rate: NotRequired[RateBody | None]
    """How many leases may start per period; `null`: no limit."""
    reason: NotRequired[str | None]
    """Why the queue is changed; recorded in the journal."""
    retention: NotRequired[RetentionBody]
    """How long finished jobs are kept."""
    retry: NotRequired[RetryBody]
    """How jobs are retried, unless a job has a policy of its own."""


class QuotaAnswer(TypedDict):
    """The quota of a caller. The fields other than `agent_id`, `scope` and `limits` describe the limit that leaves the fewest units."""

    agent_id: str
    """The id of the caller."""
    length_ms: NotRequired[int | None]
    """The length of a `rolling` window or the refill period of a `bucket`, in milliseconds."""
    limit: NotRequired[int]

    limits: list[QuotaLimitAnswer]
    """All limits of the caller."""
    refill: NotRequired[int | None]
    """The units that a `bucket` regains in `length_ms`."""
    remaining: NotRequired[int]
    """The units that are left."""
    reset_at: NotRequired[int | None]
    """When the whole limit is available again if nothing more is spent, in seconds since 1970; `null`: never."""
    scope: str
    """The scope that is charged for the caller."""
    used: NotRequired[int]
    """The units posted and held."""
    week_start: NotRequired[Weekday | None]
    """The first day of a `week`."""
    window: NotRequired[str]
    """`lifetime`, `rolling`, `bucket`, `hour`, `day`, `week`, `month` or `year`."""
    window_start: NotRequired[int | None]
    """The start of the window, in seconds since 1970; `null` if the window has no start."""
    zone: NotRequired[str | None]
    """The time zone of a calendar window."""


class QuotaCheckAnswer(TypedDict):
    """The quota of a caller after a charge that was admitted. A charge that is not admitted is answered with the problem `quota-exceeded`."""

    admitted: bool
    """Whether the quota admits the charge. It is always `true`; a refusal is a problem."""
    agent_id: str
    """The id of the caller."""
    cost: int
    """The units charged; 0 if the path of the operation costs nothing."""
    length_ms: NotRequired[int | None]
    """The length of a `rolling` window or the refill period of a `bucket`, in milliseconds."""
    limit: NotRequired[int]

    limits: list[QuotaLimitAnswer]
    """All limits of the caller."""
    refill: NotRequired[int | None]
    """The units that a `bucket` regains in `length_ms`."""
    remaining: NotRequired[int]
    """The units that are left."""
    reset_at: NotRequired[int | None]
    """When the whole limit is available again if nothing more is spent, in seconds since 1970; `null`: never."""
    scope: str
    """The scope that is charged for the caller."""
    used: NotRequired[int]
    """The units posted and held."""
    week_start: NotRequired[Weekday | None]
    """The first day of a `week`."""
    window: NotRequired[str]
    """`lifetime`, `rolling`, `bucket`, `hour`, `day`, `week`, `month` or `year`."""
    window_start: NotRequired[int | None]
    """The start of the window, in seconds since 1970; `null` if the window has no start."""
    zone: NotRequired[str | None]
    """The time zone of a calendar window."""


class QuotaCheckBody(TypedDict):
    """A charge to the quota of a caller: the body of `POST /v1/meter/check`. Either `cost` or `operation` is required."""

    agent_id: str
    """The id of the caller."""
    cost: NotRequired[int | None]
    """The units to charge."""
    operation: NotRequired[MeteredOperationBody | None]
    """The request that the caller makes of your API. The prices of the server's configuration tell what it costs."""


class QuotaLimitAnswer(TypedDict):
    """One limit of a quota."""

    length_ms: NotRequired[int | None]
    """The length of a `rolling` window or the refill period of a `bucket`, in milliseconds."""
    limit: int

    refill: NotRequired[int | None]
    """The units that a `bucket` regains in `length_ms`."""
    remaining: int
    """The units that are left."""
    reset_at: NotRequired[int | None]
    """When the whole limit is available again if nothing more is spent, in seconds since 1970; `null`: never."""
    used: int
    """The units posted and held."""
    week_start: NotRequired[Weekday | None]
    """The first day of a `week`."""
    window: str
    """`lifetime`, `rolling`, `bucket`, `hour`, `day`, `week`, `month` or `year`."""
    window_start: NotRequired[int | None]
    """The start of the window, in seconds since 1970; `null` if the window has no start."""
    zone: NotRequired[str | None]
    """The time zone of a calendar window."""


class QuotaLimitBody(TypedDict):
    """Limits for one caller: the body of `POST /v1/meter/quota/limit`. Either `limit` or `limits` is required."""

    agent_id: str
    """The id of the caller."""
    limit: NotRequired[int | None]
    """The units per window; the window is that of the default quota."""
    limits: NotRequired[list[LimitBody] | None]
    """Limits with windows of their own."""
    reason: NotRequired[str | None]
    """Why the limits are changed; recorded in the journal."""


class RateBody(TypedDict):
    """A rate limit: a token bucket of `amount` leases that refills in `per_ms`."""

    amount: int
    """The number of leases."""
    per: NotRequired[str]
    """The same as `per_ms`, as a duration such as `10m` or `1h30m`; one of the two is required."""
    per_ms: NotRequired[int]
    """The period, in milliseconds."""


class ReasonBody(TypedDict):
    """A request whose only field is a reason."""

    reason: NotRequired[str | None]
    """Why the request is made; recorded in the journal."""


class RedeemBody(TypedDict):
    """A grant to redeem."""

    purpose: str

    subject: str
    """The subject that the grant was made for."""
    token: str
    """The token of the grant."""


class RedeemedAnswer(TypedDict):
    """A grant that a command redeemed."""

    payload: NotRequired[Any]
    """The payload of the grant; `null` if it is no longer stored."""
    purpose: str


class ReferenceBody(TypedDict):
    """A reference of the application to a blob, which keeps it from being collected."""

    blob: str

    by: str
    """The name of what refers to the blob, such as `post:42`."""


class RefusalsAnswer(TypedDict):
    """How often a limit, or a freeze, has refused charges since the server started. Refusals are counted in memory and are not in the journal."""

    count: int
    """The number of refused requests."""
    last_at: NotRequired[str | None]
    """When the last one was refused."""
    scope: str
    """The scope that refused: the one that was charged, or an ancestor of it."""
    window: NotRequired[str | None]
    """The window of the limit, such as `month@Europe/Berlin`; `null` if the scope was frozen."""


class RelocateAnswer(TypedDict):
    """What a step of a move did."""

    bytes: int
    """Their bytes."""
    failed: int
    """The blobs that could not be moved; they stay where they are."""
    moved: int
    """The blobs whose bytes were moved."""
    next: NotRequired[str | None]
    """Where the next step goes on; `null` at the end."""
    there: int
    """The blobs that were there already."""


class RelocateBody(TypedDict):
    """A step of a move to another backend."""

    after: NotRequired[str | None]
    """The last blob of the step before."""
    limit: NotRequired[int | None]
    """The most blobs to look at; default: 100."""
    to: str
    """The backend that gets the bytes: `local` or `s3`."""


class RetentionBody(TypedDict):
    """How long finished jobs are kept, in milliseconds; `null`: forever."""

    cancelled: NotRequired[str | None]
    """The same as `cancelled_ms`, as a duration such as `10m` or `1h30m`."""
    cancelled_ms: NotRequired[int | None]

    dead: NotRequired[str | None]
    """The same as `dead_ms`, as a duration such as `10m` or `1h30m`."""
    dead_ms: NotRequired[int | None]

    succeeded: NotRequired[str | None]
    """The same as `succeeded_ms`, as a duration such as `10m` or `1h30m`."""
    succeeded_ms: NotRequired[int | None]


class RetryBody(TypedDict):
    """A retry policy. `backoff` decides which of the delays may be given: `first_ms` and `most_ms` for `exponential`, `delay_ms` for `fixed`, `delays_ms` for `list`."""

    backoff: NotRequired[BackoffWord]
    """How the delay before the next attempt is chosen."""
    delay: NotRequired[str | None]
    """The same as `delay_ms`, as a duration such as `10m` or `1h30m`."""
    delay_ms: NotRequired[int | None]
    """The delay before every attempt, in milliseconds."""
    delays: NotRequired[list[str] | None]
    """The same as `delays_ms`, as a duration such as `10m` or `1h30m`."""
    delays_ms: NotRequired[list[int] | None]
    """The delay after the first attempt, after the second and so on, in milliseconds. The last one is used for all later attempts."""
    first: NotRequired[str | None]
    """The same as `first_ms`, as a duration such as `10m` or `1h30m`."""
    first_ms: NotRequired[int | None]
    """The upper bound of the first delay, in milliseconds."""
    max_attempts: NotRequired[int]
    """The number of failed attempts after which a job is dead."""
    most: NotRequired[str | None]
    """The same as `most_ms`, as a duration such as `10m` or `1h30m`."""
    most_ms: NotRequired[int | None]
    """The upper bound of all delays, in milliseconds."""


class ReturnBody(TypedDict):
    """A job that the worker gives back. It is ready at once, and the attempt does not count."""

    fence: int
    """The fence of the lease."""


class ReturnItem(TypedDict):
    """A job that the worker gives back. It is ready at once, and the attempt does not count."""

    fence: int
    """The fence of the lease."""
    id: str


class RotateBody(TypedDict):
    """A token to replace."""

    expires_in: NotRequired[str | None]
    """The same as `expires_in_ms`, as a duration such as `10m` or `1h30m`."""
    expires_in_ms: NotRequired[int | None]
    """How long the new token is valid, in milliseconds; default: 90 days, except that an operator's token does not expire."""
    overlap: NotRequired[str | None]
    """The same as `overlap_ms`, as a duration such as `10m` or `1h30m`."""
    overlap_ms: NotRequired[int | None]
    """How long the old token stays valid, in milliseconds; default: one day."""


class ScheduleAnswer(TypedDict):
    """The current state of a schedule."""

    cron: str
    """When the schedule ticks."""
    deadline_ms: NotRequired[int | None]
    """How long one attempt may run, in milliseconds; default: the queue's setting."""
    delay_ms: NotRequired[int]
    """How long the job waits after its tick, in milliseconds; default: 0."""
    key: NotRequired[str | None]
    """The flow key of the job."""
    kind: str
    """The type of work of that job."""
    last_job: NotRequired[str | None]
    """The job of that tick."""
    last_tick: NotRequired[str | None]
    """The last tick that enqueued a job."""
    max_attempts: NotRequired[int | None]
    """The number of failed attempts after which the job is dead; default: that of `retry`, else the queue's setting."""
    metadata: NotRequired[Any]
    """JSON that is stored with the job for its owner; default: `null`."""
    missed: NotRequired[Missed]
    """What happens to ticks that were missed, for example while the server was down."""
    name: str

    next_at: NotRequired[str | None]
    """The next tick; `null` if the schedule is paused or never ticks again."""
    overlap: NotRequired[Overlap]
    """What happens at a tick while the job of the previous tick has not ended."""
    paused: NotRequired[bool]
    """A paused schedule does not tick."""
    payload: NotRequired[Any]
    """JSON for the worker; default: `null`."""
    priority: NotRequired[int]
    """The priority of the job; default: 0."""
    queue: str
    """The queue of the job that each tick enqueues."""
    reason: NotRequired[str | None]
    """Why the schedule is changed; recorded in the journal."""
    retry: NotRequired[RetryBody | None]
    """How the job is retried; default: the queue's setting."""
    tags: NotRequired[list[str]]
    """Tags to find the job by."""
    zone: NotRequired[str]
    """The time zone of `cron`, such as `Europe/Berlin`; default: UTC."""


class ScheduleBody(TypedDict):
    """A recurring job: the body of `PUT /v1/schedules/{name}`. A field that is left out is set to its default."""

    cron: str
    """When the schedule ticks."""
    deadline: NotRequired[str | None]
    """The same as `deadline_ms`, as a duration such as `10m` or `1h30m`."""
    deadline_ms: NotRequired[int | None]
    """How long one attempt may run, in milliseconds; default: the queue's setting."""
    delay: NotRequired[str]
    """The same as `delay_ms`, as a duration such as `10m` or `1h30m`."""
    delay_ms: NotRequired[int]
    """How long the job waits after its tick, in milliseconds; default: 0."""
    key: NotRequired[str | None]
    """The flow key of the job."""
    kind: str
    """The type of work of that job."""
    last_job: NotRequired[Any]
    """Ignored: a field of the answer, which may be sent back."""
    last_tick: NotRequired[Any]
    """Ignored: a field of the answer, which may be sent back."""
    max_attempts: NotRequired[int | None]
    """The number of failed attempts after which the job is dead; default: that of `retry`, else the queue's setting."""
    metadata: NotRequired[Any]
    """JSON that is stored with the job for its owner; default: `null`."""
    missed: NotRequired[Missed]
    """What happens to ticks that were missed, for example while the server was down."""
    name: NotRequired[Any]
    """Ignored: a field of the answer, which may be sent back."""
    next_at: NotRequired[Any]
    """Ignored: a field of the answer, which may be sent back."""
    overlap: NotRequired[Overlap]
    """What happens at a tick while the job of the previous tick has not ended."""
    paused: NotRequired[bool]
    """A paused schedule does not tick."""
    payload: NotRequired[Any]
    """JSON for the worker; default: `null`."""
    priority: NotRequired[int]
    """The priority of the job; default: 0."""
    queue: str
    """The queue of the job that each tick enqueues."""
    reason: NotRequired[str | None]
    """Why the schedule is changed; recorded in the journal."""
    retry: NotRequired[RetryBody | None]
    """How the job is retried; default: the queue's setting."""
    tags: NotRequired[list[str]]
    """Tags to find the job by."""
    zone: NotRequired[str]
    """The time zone of `cron`, such as `Europe/Berlin`; default: UTC."""


class ScopeActivity(TypedDict):
    """The spend of one scope, without that of its children."""

    scope: str

    spent: list[int]
    """The units posted in each minute, oldest first; negative if more were credited."""


class SelectionBody(TypedDict):
    """The jobs to act on: either `ids` or `filter` is required."""

    cursor: NotRequired[str | None]
    """The `next` of an earlier answer, to continue there; only with `filter`."""
    dry_run: NotRequired[bool]
    """Only count the jobs."""
    filter: NotRequired[FilterBody | None]
    """All jobs that match."""
    ids: NotRequired[list[str]]
    """The jobs, by id."""
    limit: NotRequired[int | None]
    """The number of jobs after which to answer; default: 10,000."""
    reason: NotRequired[str | None]
    """Why the jobs are changed; recorded in the journal."""


SeriesAnswer = TypedDict(
    "SeriesAnswer",
    {
        "cancelled": "list[int]",
        "dead": "list[int]",
        "enqueued": "list[int]",
        "failed_attempts": "list[int]",
        "from": "str",
        "step_ms": "int",
        "succeeded": "list[int]",
    },
)
"""Counts by minute, oldest first: each list has one number for each minute of the period."""


class SettledAnswer(TypedDict):
    """A hold that was committed or released."""

    charges: list[ChargeAnswer]
    """The charges, with what each limit leaves."""
    id: str

    late: bool
    """The hold was committed after its expiry."""
    overrun: int
    """The units committed above the held amount."""
    state: HoldState

    warnings: list[str]
    """`committed_after_expiry`, `overrun`, both or none."""


class SnoozeBody(TypedDict):
    """A job to run later. The attempt does not count."""

    delay: NotRequired[str]
    """The same as `delay_ms`, as a duration such as `10m` or `1h30m`; one of the two is required."""
    delay_ms: NotRequired[int]
    """How long to wait before the job is ready again, in milliseconds; at most ten years."""
    fence: int
    """The fence of the lease."""


class SnoozeItem(TypedDict):
    """A job to run later. The attempt does not count."""

    delay: NotRequired[str]
    """The same as `delay_ms`, as a duration such as `10m` or `1h30m`; one of the two is required."""
    delay_ms: NotRequired[int]
    """How long to wait before the job is ready again, in milliseconds; at most ten years."""
    fence: int
    """The fence of the lease."""
    id: str


class SpendSeriesAnswer(TypedDict):
    """The units posted on a scope over time: the answer of `GET /v1/budgets/{scope}/series`."""

    scope: str

    steps: list[SpendStep]
    """The steps of the period, oldest first."""


SpendStep = TypedDict(
    "SpendStep",
    {"from": "NotRequired[str | None]", "spent": "NotRequired[int | None]", "to": "NotRequired[str | None]"},
)
"""One step of a series."""

SpentAnswer = TypedDict(
    "SpentAnswer", {"from": "NotRequired[str | None]", "scope": "str", "spent": "int", "to": "NotRequired[str | None]"}
)
"""The units posted on a scope in a period."""


class StreamAnswer(TypedDict):
    """The object that an event changed."""

    id: str
    """The id or the name of the object."""
    kind: str
    """The type of the object, such as `hold` or `job`."""


class TenantAnswer(TypedDict):
    """A tenant: an item of `GET /v1/tenants`."""

    name: str


class Unit(TypedDict):
    """What a budget counts. Amounts are whole numbers of its smallest part: with 6 decimals, `$25.00` is 25000000."""

    decimals: int
    """The digits after the decimal point."""
    name: str
    """Its name, such as `usd` or `tokens`; may be empty."""
    symbol: NotRequired[str | None]
    """What is written before an amount instead of the name after it, such as `$`."""


class UploadTarget(TypedDict):
    """Where the bytes of a signed upload go."""

    expires_at: NotRequired[str | None]
    """When the signature ends."""
    headers: dict[str, str]
    """The headers that the request must have."""
    method: str
    """The method: `PUT`."""
    parts: NotRequired[list[PartTarget] | None]
    """The parts; `null` if all bytes go in one request."""
    upload_id: NotRequired[str | None]
    """The id of an upload in parts, which the commit repeats."""
    url: NotRequired[str | None]
    """The address for all bytes; `null` if they go in parts."""


class Usage(TypedDict):
    """Units that a worker has spent."""

    amount: int
    """The number of units."""
    scope: NotRequired[str | None]
    """The scope to charge. Default: the only scope of the job's hold."""


class VerifyAnswer(TypedDict):
    """The result of the integrity check: the answer of `GET /v1/verify`."""

    checked: CheckedAnswer
    """How many rows were checked."""
    ok: bool
    """`true` if no violation was found."""
    violations: list[str]
    """The violated invariants, one sentence each."""


class ViolationAnswerLimit(TypedDict):
    """A limit leaves too few units."""

    available: int
    """The units that are left."""
    kind: Literal["limit"]

    length_ms: NotRequired[int | None]
    """The length of a `rolling` window or the refill period of a `bucket`, in milliseconds."""
    limit: int

    possible: bool
    """Whether the limit can ever admit the request; `false` if the request exceeds the whole limit."""
    refill: NotRequired[int | None]
    """The units that a `bucket` regains in `length_ms`."""
    requested: int
    """The units that the request needs."""
    retry_after_ms: NotRequired[int | None]
    """An estimate of when the units become available by themselves, in milliseconds from now; `null` if they do not. A release can make room sooner, and other requests can take the room."""
    scope: str

    unit: NotRequired[Unit]
    """The unit of the amounts."""
    week_start: NotRequired[Weekday | None]
    """The first day of a `week`."""
    window: str
    """`lifetime`, `rolling`, `bucket`, `hour`, `day`, `week`, `month` or `year`."""
    zone: NotRequired[str | None]
    """The time zone of a calendar window."""


class ViolationAnswerFrozen(TypedDict):
    """The scope is frozen."""

    kind: Literal["frozen"]

    scope: str


class ViolationAnswerGrant(TypedDict):
    """The token of a grant was not accepted."""

    kind: Literal["grant"]

    purpose: str


class WhoAmIAnswer(TypedDict):
    """Who the caller is: the answer of `GET /v1/whoami`."""

    actions: list[str]
    """The actions that the caller may perform."""
    name: str
    """The name that the journal records."""
    role: Role

    tenant: str
    """The tenant whose data the caller may access. An operator may choose another one per request."""


class WorkerBody(TypedDict):
    """A worker to register."""

    capabilities: NotRequired[Capabilities]
    """What the worker may lease, and which scopes it may charge."""
    expires_in: NotRequired[str | None]
    """The same as `expires_in_ms`, as a duration such as `10m` or `1h30m`."""
    expires_in_ms: NotRequired[int | None]
    """How long its token is valid, in milliseconds; default: 90 days."""
    name: str


class WorkerSeenAnswer(TypedDict):
    """A worker that has asked the server for jobs."""

    name: str

    queues: list[str]
    """The queues it has asked for the last time."""
    seen_at: NotRequired[str | None]
    """When it has last asked for jobs, or stopped waiting for them."""
    waiting: bool
    """Whether it is waiting for jobs now."""


class WouldRefuseAnswerLimit(TypedDict):
    """A limit left too few units."""

    available: int
    """The units that were left."""
    kind: Literal["limit"]

    length_ms: NotRequired[int | None]
    """The length of a `rolling` window or the refill period of a `bucket`, in milliseconds."""
    limit: int

    refill: NotRequired[int | None]
    """The units that a `bucket` regains in `length_ms`."""
    requested: int
    """The units that the request needed."""
    scope: str

    week_start: NotRequired[Weekday | None]
    """The first day of a `week`."""
    window: str
    """`lifetime`, `rolling`, `bucket`, `hour`, `day`, `week`, `month` or `year`."""
    zone: NotRequired[str | None]
    """The time zone of a calendar window."""


class WouldRefuseAnswerFrozen(TypedDict):
    """The trip limit had frozen the scope."""

    kind: Literal["frozen"]

    requested: int
    """The units that the request needed; 0 for the extension of a hold."""
    scope: str


BackoffWord: TypeAlias = Literal["exponential", "fixed", "list"]
"""How the delay before the next attempt is chosen."""

BlobListWord: TypeAlias = Literal["live", "deleted", "pending", "all"]
"""Which blobs a list has."""

BlobStateWord: TypeAlias = Literal["pending", "live", "deleted", "doomed"]
"""The state of a blob."""

Cover: TypeAlias = Literal["charge", "refuse"]
"""The policy for spend that a hold does not cover: an overrun or a late commit."""

FreezeAnswer: TypeAlias = Union[FreezeAnswerOrder, FreezeAnswerTrip]
"""Why a scope is frozen."""

HoldState: TypeAlias = Literal["held", "committed", "released", "expired"]
"""The state of a hold."""

ItemAnswerOfBeatenAnswer: TypeAlias = Union[BeatenAnswer, ItemAnswerOfBeatenAnswerProblem]
"""The answer to the report on one job: its result, or the problem."""

ItemAnswerOfFinishedAnswer: TypeAlias = Union[FinishedAnswer, ItemAnswerOfFinishedAnswerProblem]
"""The answer to the report on one job: its result, or the problem."""

JobAct: TypeAlias = Literal["retry", "cancel", "discard", "erase"]
"""An action that a caller can perform on a job without saying more."""

JobState: TypeAlias = Literal["scheduled", "queued", "awaiting_budget", "leased", "succeeded", "cancelled", "dead"]
"""The state of a job."""

LinkAct: TypeAlias = Literal["read", "upload"]
"""What a link allows."""

ListOrder: TypeAlias = Literal["oldest", "newest"]
"""The order of a list."""

Missed: TypeAlias = Literal["skip", "one", "all"]
"""What to do with missed ticks. A tick is missed if it is handled more than 60 seconds late, or if the next one is due already."""

Order: TypeAlias = Literal["continue", "cancel", "drain"]
"""What a worker should do with a job that it has leased."""

Overlap: TypeAlias = Literal["allow", "skip", "cancel"]
"""What to do while the job of the last tick has not ended."""

Pattern: TypeAlias = str
"""A name, or a prefix of names before a `*`."""

Role: TypeAlias = Literal["operator", "admin", "user", "agent", "viewer", "worker", "monitor"]
"""The role of a principal in its tenant."""

SettleWord: TypeAlias = Literal["now", "hold", "job"]
"""When charges are settled."""

ViolationAnswer: TypeAlias = Union[ViolationAnswerLimit, ViolationAnswerFrozen, ViolationAnswerGrant]
"""One reason why a request was refused."""

Weekday: TypeAlias = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
"""A day of the week."""

WouldRefuseAnswer: TypeAlias = Union[WouldRefuseAnswerLimit, WouldRefuseAnswerFrozen]
"""What a budget in shadow mode admitted, and would have refused otherwise."""
