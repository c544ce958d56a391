"""The calls of the HTTP API, by resource. Generated from docs/openapi.json by scripts/generate.py."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from typing_extensions import Unpack

from bursar import models
from bursar._call import Call, path, query
from bursar._sending import AsyncSender, SyncSender


class BlobsCalls:
    """Builds the calls of `blobs`."""

    @staticmethod
    def list(
        *,
        cursor: str | None = None,
        limit: int | None = None,
        namespace: str | None = None,
        order: models.ListOrder | None = None,
        state: models.BlobListWord | None = None,
    ) -> Call[models.PageOfBlobAnswer]:
        return Call(
            "GET",
            path("v1", "blobs"),
            query=query({"cursor": cursor, "limit": limit, "namespace": namespace, "order": order, "state": state}),
        )

    @staticmethod
    def gc(**body: Unpack[models.GcBody]) -> Call[models.GcAnswer]:
        return Call("POST", path("v1", "blobs", "gc"), idempotent=True, body=body)

    @staticmethod
    def move(**body: Unpack[models.RelocateBody]) -> Call[models.RelocateAnswer]:
        return Call("POST", path("v1", "blobs", "move"), idempotent=True, body=body)

    @staticmethod
    def orphans(**body: Unpack[models.OrphansBody]) -> Call[models.OrphansAnswer]:
        return Call("POST", path("v1", "blobs", "orphans"), idempotent=True, body=body)

    @staticmethod
    def presign(**body: Unpack[models.PresignBody]) -> Call[models.PresignAnswer]:
        return Call("POST", path("v1", "blobs", "presign"), idempotent=True, body=body)

    @staticmethod
    def delete(id: str, /, *, reason: str | None = None) -> Call[None]:
        return Call("DELETE", path("v1", "blobs", id), query=query({"reason": reason}))

    @staticmethod
    def commit(id: str, /, **body: Unpack[models.CommitBlobBody]) -> Call[models.BlobAnswer]:
        return Call("POST", path("v1", "blobs", id, "commit"), idempotent=True, body=body)

    @staticmethod
    def link(id: str, /, **body: Unpack[models.LinkBody]) -> Call[models.LinkAnswer]:
        return Call("POST", path("v1", "blobs", id, "link"), body=body)

    @staticmethod
    def meta(id: str, /, *, at: str | None = None) -> Call[models.BlobAnswer]:
        return Call("GET", path("v1", "blobs", id, "meta"), query=query({"at": at}))

    @staticmethod
    def remove_reference(id: str, name: str, /, *, reason: str | None = None) -> Call[None]:
        return Call("DELETE", path("v1", "blobs", id, "references", name), query=query({"reason": reason}))

    @staticmethod
    def add_reference(id: str, name: str, /, **body: Unpack[models.ReasonBody]) -> Call[None]:
        return Call("PUT", path("v1", "blobs", id, "references", name), body=body)

    @staticmethod
    def restore(id: str, /, **body: Unpack[models.ReasonBody]) -> Call[models.BlobAnswer]:
        return Call("POST", path("v1", "blobs", id, "restore"), body=body)


class BudgetsCalls:
    """Builds the calls of `budgets`."""

    @staticmethod
    def list(
        *, cursor: str | None = None, limit: int | None = None, prefix: str | None = None
    ) -> Call[models.PageOfBudgetAnswer]:
        return Call("GET", path("v1", "budgets"), query=query({"cursor": cursor, "limit": limit, "prefix": prefix}))

    @staticmethod
    def remove(scope: str, /, *, reason: str | None = None) -> Call[None]:
        return Call("DELETE", path("v1", "budgets", scope), query=query({"reason": reason}))

    @staticmethod
    def get(scope: str, /, *, at: str | None = None) -> Call[models.BudgetAnswer]:
        return Call("GET", path("v1", "budgets", scope), query=query({"at": at}))

    @staticmethod
    def define(scope: str, /, **body: Unpack[models.BudgetBody]) -> Call[models.BudgetAnswer]:
        return Call("PUT", path("v1", "budgets", scope), body=body)

    @staticmethod
    def credit(scope: str, /, **body: Unpack[models.CreditBody]) -> Call[models.CreditedAnswer]:
        return Call("POST", path("v1", "budgets", scope, "credits"), body=body)

    @staticmethod
    def freeze(scope: str, /, **body: Unpack[models.ReasonBody]) -> Call[models.BudgetAnswer]:
        return Call("POST", path("v1", "budgets", scope, "freeze"), body=body)

    @staticmethod
    def history(
        scope: str, /, *, cursor: str | None = None, limit: int | None = None
    ) -> Call[models.PageOfEventAnswer]:
        return Call("GET", path("v1", "budgets", scope, "history"), query=query({"cursor": cursor, "limit": limit}))

    @staticmethod
    def series(
        scope: str, /, *, from_: str | None = None, steps: int | None = None, to: str | None = None
    ) -> Call[models.SpendSeriesAnswer]:
        return Call(
            "GET", path("v1", "budgets", scope, "series"), query=query({"from": from_, "steps": steps, "to": to})
        )

    @staticmethod
    def spent(scope: str, /, *, from_: str | None = None, to: str | None = None) -> Call[models.SpentAnswer]:
        return Call("GET", path("v1", "budgets", scope, "spent"), query=query({"from": from_, "to": to}))

    @staticmethod
    def unfreeze(scope: str, /, **body: Unpack[models.ReasonBody]) -> Call[models.BudgetAnswer]:
        return Call("POST", path("v1", "budgets", scope, "unfreeze"), body=body)


class CommandsCalls:
    """Builds the calls of `commands`."""

    @staticmethod
    def submit(**body: Unpack[models.CommandBody]) -> Call[models.CommandAnswer]:
        return Call("POST", path("v1", "commands"), body=body)

    @staticmethod
    def get(id: str, /) -> Call[models.CommandAnswer]:
        return Call("GET", path("v1", "commands", id))


class DeadCalls:
    """Builds the calls of `dead`."""

    @staticmethod
    def list(
        *,
        cursor: str | None = None,
        fingerprint: str | None = None,
        key: str | None = None,
        kind: str | None = None,
        limit: int | None = None,
        queue: str | None = None,
        tag: str | None = None,
    ) -> Call[models.PageOfJobAnswer]:
        return Call(
            "GET",
            path("v1", "dead"),
            query=query(
                {
                    "cursor": cursor,
                    "fingerprint": fingerprint,
                    "key": key,
                    "kind": kind,
                    "limit": limit,
                    "queue": queue,
                    "tag": tag,
                }
            ),
        )

    @staticmethod
    def discard(**body: Unpack[models.SelectionBody]) -> Call[models.ActedAnswer]:
        return Call("POST", path("v1", "dead", "discard"), body=body)

    @staticmethod
    def groups(
        *, cursor: str | None = None, limit: int | None = None, queue: str | None = None
    ) -> Call[models.PageOfDeadGroupAnswer]:
        return Call(
            "GET", path("v1", "dead", "groups"), query=query({"cursor": cursor, "limit": limit, "queue": queue})
        )

    @staticmethod
    def move(**body: Unpack[models.MoveManyBody]) -> Call[models.ActedAnswer]:
        return Call("POST", path("v1", "dead", "move"), body=body)

    @staticmethod
    def retry(**body: Unpack[models.SelectionBody]) -> Call[models.ActedAnswer]:
        return Call("POST", path("v1", "dead", "retry"), body=body)


class GrantsCalls:
    """Builds the calls of `grants`."""

    @staticmethod
    def list(
        *, cursor: str | None = None, limit: int | None = None, order: models.ListOrder | None = None
    ) -> Call[models.PageOfGrantAnswer]:
        return Call("GET", path("v1", "grants"), query=query({"cursor": cursor, "limit": limit, "order": order}))

    @staticmethod
    def create(**body: Unpack[models.MintBody]) -> Call[models.MintedAnswer]:
        return Call("POST", path("v1", "grants"), body=body)

    @staticmethod
    def revoke(id: str, /, *, reason: str | None = None) -> Call[None]:
        return Call("DELETE", path("v1", "grants", id), query=query({"reason": reason}))

    @staticmethod
    def get(id: str, /, *, at: str | None = None) -> Call[models.GrantAnswer]:
        return Call("GET", path("v1", "grants", id), query=query({"at": at}))

    @staticmethod
    def erase(id: str, /, **body: Unpack[models.ReasonBody]) -> Call[None]:
        return Call("POST", path("v1", "grants", id, "erase"), body=body)


class HoldsCalls:
    """Builds the calls of `holds`."""

    @staticmethod
    def list(
        *, cursor: str | None = None, limit: int | None = None, scope: str, state: str | None = None
    ) -> Call[models.PageOfHoldAnswer]:
        return Call(
            "GET", path("v1", "holds"), query=query({"cursor": cursor, "limit": limit, "scope": scope, "state": state})
        )

    @staticmethod
    def place(**body: Unpack[models.HoldBody]) -> Call[models.CommandAnswer]:
        return Call("POST", path("v1", "holds"), body=body)

    @staticmethod
    def get(id: str, /, *, at: str | None = None) -> Call[models.HoldAnswer]:
        return Call("GET", path("v1", "holds", id), query=query({"at": at}))

    @staticmethod
    def commit(id: str, /, **body: Unpack[models.CommitBody]) -> Call[models.SettledAnswer]:
        return Call("POST", path("v1", "holds", id, "commit"), body=body)

    @staticmethod
    def extend(id: str, /, **body: Unpack[models.ExtendBody]) -> Call[models.ExtendedAnswer]:
        return Call("POST", path("v1", "holds", id, "extend"), body=body)

    @staticmethod
    def history(id: str, /, *, cursor: str | None = None, limit: int | None = None) -> Call[models.PageOfEventAnswer]:
        return Call("GET", path("v1", "holds", id, "history"), query=query({"cursor": cursor, "limit": limit}))

    @staticmethod
    def release(id: str, /, **body: Unpack[models.ReasonBody]) -> Call[models.SettledAnswer]:
        return Call("POST", path("v1", "holds", id, "release"), body=body)


class JobsCalls:
    """Builds the calls of `jobs`."""

    @staticmethod
    def costs(
        *, cursor: str | None = None, from_: str, limit: int | None = None, to: str | None = None
    ) -> Call[models.PageOfDayCostAnswer]:
        return Call(
            "GET", path("v1", "costs"), query=query({"cursor": cursor, "from": from_, "limit": limit, "to": to})
        )

    @staticmethod
    def held(
        *, cursor: str | None = None, limit: int | None = None, queue: str | None = None
    ) -> Call[models.PageOfHeldAnswer]:
        return Call("GET", path("v1", "held"), query=query({"cursor": cursor, "limit": limit, "queue": queue}))

    @staticmethod
    def list(
        *,
        cursor: str | None = None,
        fingerprint: str | None = None,
        key: str | None = None,
        kind: str | None = None,
        limit: int | None = None,
        order: models.ListOrder | None = None,
        queue: str | None = None,
        state: str | None = None,
        tag: str | None = None,
    ) -> Call[models.PageOfJobAnswer]:
        return Call(
            "GET",
            path("v1", "jobs"),
            query=query(
                {
                    "cursor": cursor,
                    "fingerprint": fingerprint,
                    "key": key,
                    "kind": kind,
                    "limit": limit,
                    "order": order,
                    "queue": queue,
                    "state": state,
                    "tag": tag,
                }
            ),
        )

    @staticmethod
    def enqueue(**body: Unpack[models.JobBody]) -> Call[models.EnqueuedAnswer]:
        return Call("POST", path("v1", "jobs"), body=body)

    @staticmethod
    def enqueue_many(**body: Unpack[models.BulkBody]) -> Call[models.EnqueuedJobsAnswer]:
        return Call("POST", path("v1", "jobs", "bulk"), body=body)

    @staticmethod
    def cancel_many(**body: Unpack[models.SelectionBody]) -> Call[models.ActedAnswer]:
        return Call("POST", path("v1", "jobs", "cancel"), body=body)

    @staticmethod
    def edit_many(**body: Unpack[models.EditManyBody]) -> Call[models.ActedAnswer]:
        return Call("POST", path("v1", "jobs", "edit"), body=body)

    @staticmethod
    def erase_many(**body: Unpack[models.SelectionBody]) -> Call[models.ActedAnswer]:
        return Call("POST", path("v1", "jobs", "erase"), body=body)

    @staticmethod
    def retry_many(**body: Unpack[models.SelectionBody]) -> Call[models.ActedAnswer]:
        return Call("POST", path("v1", "jobs", "retry"), body=body)

    @staticmethod
    def get(id: str, /, *, at: str | None = None) -> Call[models.JobAnswer]:
        return Call("GET", path("v1", "jobs", id), query=query({"at": at}))

    @staticmethod
    def edit(id: str, /, **body: Unpack[models.EditBody]) -> Call[models.FinishedAnswer]:
        return Call("PATCH", path("v1", "jobs", id), body=body)

    @staticmethod
    def attempts(id: str, /) -> Call[models.PageOfAttemptAnswer]:
        return Call("GET", path("v1", "jobs", id, "attempts"))

    @staticmethod
    def cancel(id: str, /, **body: Unpack[models.ReasonBody]) -> Call[models.FinishedAnswer]:
        return Call("POST", path("v1", "jobs", id, "cancel"), body=body)

    @staticmethod
    def discard(id: str, /, **body: Unpack[models.ReasonBody]) -> Call[models.FinishedAnswer]:
        return Call("POST", path("v1", "jobs", id, "discard"), body=body)

    @staticmethod
    def erase(id: str, /, **body: Unpack[models.ReasonBody]) -> Call[models.FinishedAnswer]:
        return Call("POST", path("v1", "jobs", id, "erase"), body=body)

    @staticmethod
    def events(id: str, /, *, cursor: str | None = None, limit: int | None = None) -> Call[models.PageOfEventAnswer]:
        return Call("GET", path("v1", "jobs", id, "events"), query=query({"cursor": cursor, "limit": limit}))

    @staticmethod
    def move(id: str, /, **body: Unpack[models.MoveBody]) -> Call[models.FinishedAnswer]:
        return Call("POST", path("v1", "jobs", id, "move"), body=body)

    @staticmethod
    def retry(id: str, /, **body: Unpack[models.ReasonBody]) -> Call[models.FinishedAnswer]:
        return Call("POST", path("v1", "jobs", id, "retry"), body=body)


class JournalCalls:
    """Builds the calls of `journal`."""

    @staticmethod
    def activity() -> Call[models.ActivityAnswer]:
        return Call("GET", path("v1", "activity"))

    @staticmethod
    def read(
        *,
        after: int | None = None,
        cursor: int | None = None,
        from_: str | None = None,
        kind: str | None = None,
        limit: int | None = None,
        order: models.ListOrder | None = None,
        stream: str | None = None,
        to: str | None = None,
    ) -> Call[models.PageOfEventAnswer]:
        return Call(
            "GET",
            path("v1", "journal"),
            query=query(
                {
                    "after": after,
                    "cursor": cursor,
                    "from": from_,
                    "kind": kind,
                    "limit": limit,
                    "order": order,
                    "stream": stream,
                    "to": to,
                }
            ),
        )


class KeysCalls:
    """Builds the calls of `keys`."""

    @staticmethod
    def list(*, cursor: str | None = None, limit: int | None = None) -> Call[models.PageOfCredentialAnswer]:
        return Call("GET", path("v1", "keys"), query=query({"cursor": cursor, "limit": limit}))

    @staticmethod
    def create(**body: Unpack[models.KeyBody]) -> Call[models.IssuedAnswer]:
        return Call("POST", path("v1", "keys"), body=body)

    @staticmethod
    def revoke(id: str, /) -> Call[None]:
        return Call("DELETE", path("v1", "keys", id))

    @staticmethod
    def get(id: str, /) -> Call[models.CredentialAnswer]:
        return Call("GET", path("v1", "keys", id))

    @staticmethod
    def rotate(id: str, /, **body: Unpack[models.RotateBody]) -> Call[models.IssuedAnswer]:
        return Call("POST", path("v1", "keys", id, "rotate"), body=body)


class LinksCalls:
    """Builds the calls of `links`."""

    @staticmethod
    def list(*, cursor: str | None = None, limit: int | None = None) -> Call[models.PageOfLinkInfo]:
        return Call("GET", path("v1", "links"), query=query({"cursor": cursor, "limit": limit}))

    @staticmethod
    def revoke(id: str, /) -> Call[None]:
        return Call("DELETE", path("v1", "links", id))


class MeterCalls:
    """Builds the calls of `meter`."""

    @staticmethod
    def check(**body: Unpack[models.QuotaCheckBody]) -> Call[models.QuotaCheckAnswer]:
        return Call("POST", path("v1", "meter", "check"), body=body)

    @staticmethod
    def quota(*, agent_id: str | None = None) -> Call[models.QuotaAnswer]:
        return Call("GET", path("v1", "meter", "quota"), query=query({"agent_id": agent_id}))

    @staticmethod
    def set_limit(**body: Unpack[models.QuotaLimitBody]) -> Call[models.QuotaAnswer]:
        return Call("POST", path("v1", "meter", "quota", "limit"), body=body)


class NamespacesCalls:
    """Builds the calls of `namespaces`."""

    @staticmethod
    def list(*, cursor: str | None = None, limit: int | None = None) -> Call[models.PageOfNamespaceAnswer]:
        return Call("GET", path("v1", "namespaces"), query=query({"cursor": cursor, "limit": limit}))

    @staticmethod
    def get(name: str, /, *, at: str | None = None) -> Call[models.NamespaceAnswer]:
        return Call("GET", path("v1", "namespaces", name), query=query({"at": at}))

    @staticmethod
    def define(name: str, /, **body: Unpack[models.NamespaceBody]) -> Call[models.NamespaceAnswer]:
        return Call("PUT", path("v1", "namespaces", name), body=body)


class QueuesCalls:
    """Builds the calls of `queues`."""

    @staticmethod
    def list(
        *, cursor: str | None = None, limit: int | None = None, minutes: int | None = None, series: bool | None = None
    ) -> Call[models.PageOfQueueAnswer]:
        return Call(
            "GET",
            path("v1", "queues"),
            query=query({"cursor": cursor, "limit": limit, "minutes": minutes, "series": series}),
        )

    @staticmethod
    def get(name: str, /, *, minutes: int | None = None, series: bool | None = None) -> Call[models.QueueAnswer]:
        return Call("GET", path("v1", "queues", name), query=query({"minutes": minutes, "series": series}))

    @staticmethod
    def define(name: str, /, **body: Unpack[models.QueueBody]) -> Call[models.QueueAnswer]:
        return Call("PUT", path("v1", "queues", name), body=body)

    @staticmethod
    def history(name: str, /, *, cursor: str | None = None, limit: int | None = None) -> Call[models.PageOfEventAnswer]:
        return Call("GET", path("v1", "queues", name, "history"), query=query({"cursor": cursor, "limit": limit}))

    @staticmethod
    def pause(name: str, /, **body: Unpack[models.ReasonBody]) -> Call[models.QueueAnswer]:
        return Call("POST", path("v1", "queues", name, "pause"), body=body)

    @staticmethod
    def resume(name: str, /, **body: Unpack[models.ReasonBody]) -> Call[models.QueueAnswer]:
        return Call("POST", path("v1", "queues", name, "resume"), body=body)


class SchedulesCalls:
    """Builds the calls of `schedules`."""

    @staticmethod
    def list(*, cursor: str | None = None, limit: int | None = None) -> Call[models.PageOfScheduleAnswer]:
        return Call("GET", path("v1", "schedules"), query=query({"cursor": cursor, "limit": limit}))

    @staticmethod
    def remove(name: str, /, *, reason: str | None = None) -> Call[None]:
        return Call("DELETE", path("v1", "schedules", name), query=query({"reason": reason}))

    @staticmethod
    def get(name: str, /, *, at: str | None = None) -> Call[models.ScheduleAnswer]:
        return Call("GET", path("v1", "schedules", name), query=query({"at": at}))

    @staticmethod
    def define(name: str, /, **body: Unpack[models.ScheduleBody]) -> Call[models.ScheduleAnswer]:
        return Call("PUT", path("v1", "schedules", name), body=body)

    @staticmethod
    def pause(name: str, /, **body: Unpack[models.ReasonBody]) -> Call[models.ScheduleAnswer]:
        return Call("POST", path("v1", "schedules", name, "pause"), body=body)

    @staticmethod
    def resume(name: str, /, **body: Unpack[models.ReasonBody]) -> Call[models.ScheduleAnswer]:
        return Call("POST", path("v1", "schedules", name, "resume"), body=body)

    @staticmethod
    def run(name: str, /, **body: Unpack[models.ReasonBody]) -> Call[models.EnqueuedAnswer]:
        return Call("POST", path("v1", "schedules", name, "run"), body=body)


class ServerCalls:
    """Builds the calls of `server`."""

    @staticmethod
    def verify() -> Call[models.VerifyAnswer]:
        return Call("GET", path("v1", "verify"))

    @staticmethod
    def whoami() -> Call[models.WhoAmIAnswer]:
        return Call("GET", path("v1", "whoami"))


class TenantsCalls:
    """Builds the calls of `tenants`."""

    @staticmethod
    def list(*, cursor: str | None = None, limit: int | None = None) -> Call[models.PageOfTenantAnswer]:
        return Call("GET", path("v1", "tenants"), query=query({"cursor": cursor, "limit": limit}))

    @staticmethod
    def get(name: str, /) -> Call[models.TenantAnswer]:
        return Call("GET", path("v1", "tenants", name))


class WorkCalls:
    """Builds the calls of `work`."""

    @staticmethod
    def complete_all(**body: Unpack[models.ItemsBodyOfCompleteItem]) -> Call[models.ItemsAnswerOfFinishedAnswer]:
        return Call("POST", path("v1", "jobs", "complete"), idempotent=True, body=body)

    @staticmethod
    def fail_all(**body: Unpack[models.ItemsBodyOfFailItem]) -> Call[models.ItemsAnswerOfFinishedAnswer]:
        return Call("POST", path("v1", "jobs", "fail"), idempotent=True, body=body)

    @staticmethod
    def heartbeat_all(**body: Unpack[models.ItemsBodyOfBeatItem]) -> Call[models.ItemsAnswerOfBeatenAnswer]:
        return Call("POST", path("v1", "jobs", "heartbeat"), idempotent=True, body=body)

    @staticmethod
    def lease(**body: Unpack[models.LeaseBody]) -> Call[models.LeasedJobsAnswer]:
        return Call(
            "POST", path("v1", "jobs", "lease"), idempotent=True, waits=body.get("wait_ms", 0) / 1000, body=body
        )

    @staticmethod
    def progress_all(**body: Unpack[models.ItemsBodyOfProgressItem]) -> Call[models.ItemsAnswerOfBeatenAnswer]:
        return Call("POST", path("v1", "jobs", "progress"), idempotent=True, body=body)

    @staticmethod
    def hand_back_all(**body: Unpack[models.ItemsBodyOfReturnItem]) -> Call[models.ItemsAnswerOfFinishedAnswer]:
        return Call("POST", path("v1", "jobs", "return"), idempotent=True, body=body)

    @staticmethod
    def snooze_all(**body: Unpack[models.ItemsBodyOfSnoozeItem]) -> Call[models.ItemsAnswerOfFinishedAnswer]:
        return Call("POST", path("v1", "jobs", "snooze"), idempotent=True, body=body)

    @staticmethod
    def complete(id: str, /, **body: Unpack[models.CompleteBody]) -> Call[models.FinishedAnswer]:
        return Call("POST", path("v1", "jobs", id, "complete"), idempotent=True, body=body)

    @staticmethod
    def emit(id: str, /, **body: Unpack[models.EmitBody]) -> Call[None]:
        return Call("POST", path("v1", "jobs", id, "events"), body=body)

    @staticmethod
    def fail(id: str, /, **body: Unpack[models.FailBody]) -> Call[models.FinishedAnswer]:
        return Call("POST", path("v1", "jobs", id, "fail"), idempotent=True, body=body)

    @staticmethod
    def heartbeat(id: str, /, **body: Unpack[models.HeartbeatBody]) -> Call[models.BeatenAnswer]:
        return Call("POST", path("v1", "jobs", id, "heartbeat"), idempotent=True, body=body)

    @staticmethod
    def progress(id: str, /, **body: Unpack[models.ProgressBody]) -> Call[models.BeatenAnswer]:
        return Call("POST", path("v1", "jobs", id, "progress"), idempotent=True, body=body)

    @staticmethod
    def hand_back(id: str, /, **body: Unpack[models.ReturnBody]) -> Call[models.FinishedAnswer]:
        return Call("POST", path("v1", "jobs", id, "return"), idempotent=True, body=body)

    @staticmethod
    def snooze(id: str, /, **body: Unpack[models.SnoozeBody]) -> Call[models.FinishedAnswer]:
        return Call("POST", path("v1", "jobs", id, "snooze"), idempotent=True, body=body)


class WorkersCalls:
    """Builds the calls of `workers`."""

    @staticmethod
    def list(*, cursor: str | None = None, limit: int | None = None) -> Call[models.PageOfCredentialAnswer]:
        return Call("GET", path("v1", "workers"), query=query({"cursor": cursor, "limit": limit}))

    @staticmethod
    def create(**body: Unpack[models.WorkerBody]) -> Call[models.IssuedAnswer]:
        return Call("POST", path("v1", "workers"), body=body)

    @staticmethod
    def revoke(id: str, /) -> Call[None]:
        return Call("DELETE", path("v1", "workers", id))

    @staticmethod
    def get(id: str, /) -> Call[models.CredentialAnswer]:
        return Call("GET", path("v1", "workers", id))

    @staticmethod
    def rotate(id: str, /, **body: Unpack[models.RotateBody]) -> Call[models.IssuedAnswer]:
        return Call("POST", path("v1", "workers", id, "rotate"), body=body)


class Blobs:
    """The calls of `blobs`."""

    def __init__(self, sender: SyncSender) -> None:
        self._sender = sender

    def list(
        self,
        *,
        cursor: str | None = None,
        limit: int | None = None,
        namespace: str | None = None,
        order: models.ListOrder | None = None,
        state: models.BlobListWord | None = None,
    ) -> models.PageOfBlobAnswer:
        """List blobs in the order they were created; without `state`, those that can be read."""
        return self._sender.send(
            BlobsCalls.list(cursor=cursor, limit=limit, namespace=namespace, order=order, state=state)
        )

    def iterate(
        self,
        *,
        limit: int | None = None,
        namespace: str | None = None,
        order: models.ListOrder | None = None,
        state: models.BlobListWord | None = None,
    ) -> Iterator[models.BlobAnswer]:
        """List blobs in the order they were created; without `state`, those that can be read: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(
            BlobsCalls.list(cursor=None, limit=limit, namespace=namespace, order=order, state=state)
        )

    def gc(self, **body: Unpack[models.GcBody]) -> models.GcAnswer:
        """Collect blobs that nothing needs any more."""
        return self._sender.send(BlobsCalls.gc(**body))

    def move(self, **body: Unpack[models.RelocateBody]) -> models.RelocateAnswer:
        """Move the bytes of some blobs to another backend."""
        return self._sender.send(BlobsCalls.move(**body))

    def orphans(self, **body: Unpack[models.OrphansBody]) -> models.OrphansAnswer:
        """Compare the storage backends with the records."""
        return self._sender.send(BlobsCalls.orphans(**body))

    def presign(self, **body: Unpack[models.PresignBody]) -> models.PresignAnswer:
        """Sign an upload that goes to the storage backend."""
        return self._sender.send(BlobsCalls.presign(**body))

    def delete(self, id: str, /, *, reason: str | None = None) -> None:
        """Delete a blob; it can be restored for a while."""
        return self._sender.send(BlobsCalls.delete(id, reason=reason))

    def commit(self, id: str, /, **body: Unpack[models.CommitBlobBody]) -> models.BlobAnswer:
        """Complete a signed upload."""
        return self._sender.send(BlobsCalls.commit(id, **body))

    def link(self, id: str, /, **body: Unpack[models.LinkBody]) -> models.LinkAnswer:
        """Create a link to read a blob."""
        return self._sender.send(BlobsCalls.link(id, **body))

    def meta(self, id: str, /, *, at: str | None = None) -> models.BlobAnswer:
        """Get what is known about a blob."""
        return self._sender.send(BlobsCalls.meta(id, at=at))

    def remove_reference(self, id: str, name: str, /, *, reason: str | None = None) -> None:
        """End a reference of the application to a blob."""
        return self._sender.send(BlobsCalls.remove_reference(id, name, reason=reason))

    def add_reference(self, id: str, name: str, /, **body: Unpack[models.ReasonBody]) -> None:
        """Keep a blob for something of the application, by name."""
        return self._sender.send(BlobsCalls.add_reference(id, name, **body))

    def restore(self, id: str, /, **body: Unpack[models.ReasonBody]) -> models.BlobAnswer:
        """Restore a deleted blob."""
        return self._sender.send(BlobsCalls.restore(id, **body))


class AsyncBlobs:
    """The calls of `blobs`."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def list(
        self,
        *,
        cursor: str | None = None,
        limit: int | None = None,
        namespace: str | None = None,
        order: models.ListOrder | None = None,
        state: models.BlobListWord | None = None,
    ) -> models.PageOfBlobAnswer:
        """List blobs in the order they were created; without `state`, those that can be read."""
        return await self._sender.send(
            BlobsCalls.list(cursor=cursor, limit=limit, namespace=namespace, order=order, state=state)
        )

    def iterate(
        self,
        *,
        limit: int | None = None,
        namespace: str | None = None,
        order: models.ListOrder | None = None,
        state: models.BlobListWord | None = None,
    ) -> AsyncIterator[models.BlobAnswer]:
        """List blobs in the order they were created; without `state`, those that can be read: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(
            BlobsCalls.list(cursor=None, limit=limit, namespace=namespace, order=order, state=state)
        )

    async def gc(self, **body: Unpack[models.GcBody]) -> models.GcAnswer:
        """Collect blobs that nothing needs any more."""
        return await self._sender.send(BlobsCalls.gc(**body))

    async def move(self, **body: Unpack[models.RelocateBody]) -> models.RelocateAnswer:
        """Move the bytes of some blobs to another backend."""
        return await self._sender.send(BlobsCalls.move(**body))

    async def orphans(self, **body: Unpack[models.OrphansBody]) -> models.OrphansAnswer:
        """Compare the storage backends with the records."""
        return await self._sender.send(BlobsCalls.orphans(**body))

    async def presign(self, **body: Unpack[models.PresignBody]) -> models.PresignAnswer:
        """Sign an upload that goes to the storage backend."""
        return await self._sender.send(BlobsCalls.presign(**body))

    async def delete(self, id: str, /, *, reason: str | None = None) -> None:
        """Delete a blob; it can be restored for a while."""
        return await self._sender.send(BlobsCalls.delete(id, reason=reason))

    async def commit(self, id: str, /, **body: Unpack[models.CommitBlobBody]) -> models.BlobAnswer:
        """Complete a signed upload."""
        return await self._sender.send(BlobsCalls.commit(id, **body))

    async def link(self, id: str, /, **body: Unpack[models.LinkBody]) -> models.LinkAnswer:
        """Create a link to read a blob."""
        return await self._sender.send(BlobsCalls.link(id, **body))

    async def meta(self, id: str, /, *, at: str | None = None) -> models.BlobAnswer:
        """Get what is known about a blob."""
        return await self._sender.send(BlobsCalls.meta(id, at=at))

    async def remove_reference(self, id: str, name: str, /, *, reason: str | None = None) -> None:
        """End a reference of the application to a blob."""
        return await self._sender.send(BlobsCalls.remove_reference(id, name, reason=reason))

    async def add_reference(self, id: str, name: str, /, **body: Unpack[models.ReasonBody]) -> None:
        """Keep a blob for something of the application, by name."""
        return await self._sender.send(BlobsCalls.add_reference(id, name, **body))

    async def restore(self, id: str, /, **body: Unpack[models.ReasonBody]) -> models.BlobAnswer:
        """Restore a deleted blob."""
        return await self._sender.send(BlobsCalls.restore(id, **body))


class Budgets:
    """The calls of `budgets`."""

    def __init__(self, sender: SyncSender) -> None:
        self._sender = sender

    def list(
        self, *, cursor: str | None = None, limit: int | None = None, prefix: str | None = None
    ) -> models.PageOfBudgetAnswer:
        """List budgets by scope."""
        return self._sender.send(BudgetsCalls.list(cursor=cursor, limit=limit, prefix=prefix))

    def iterate(self, *, limit: int | None = None, prefix: str | None = None) -> Iterator[models.BudgetAnswer]:
        """List budgets by scope: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(BudgetsCalls.list(cursor=None, limit=limit, prefix=prefix))

    def remove(self, scope: str, /, *, reason: str | None = None) -> None:
        """Remove a budget; its spend stays recorded."""
        return self._sender.send(BudgetsCalls.remove(scope, reason=reason))

    def get(self, scope: str, /, *, at: str | None = None) -> models.BudgetAnswer:
        """Get a budget and its balances."""
        return self._sender.send(BudgetsCalls.get(scope, at=at))

    def define(self, scope: str, /, **body: Unpack[models.BudgetBody]) -> models.BudgetAnswer:
        """Create or replace a budget."""
        return self._sender.send(BudgetsCalls.define(scope, **body))

    def credit(self, scope: str, /, **body: Unpack[models.CreditBody]) -> models.CreditedAnswer:
        """Credit units back to a scope."""
        return self._sender.send(BudgetsCalls.credit(scope, **body))

    def freeze(self, scope: str, /, **body: Unpack[models.ReasonBody]) -> models.BudgetAnswer:
        """Freeze a scope: refuse new charges."""
        return self._sender.send(BudgetsCalls.freeze(scope, **body))

    def history(
        self, scope: str, /, *, cursor: str | None = None, limit: int | None = None
    ) -> models.PageOfEventAnswer:
        """List a scope's events, newest first."""
        return self._sender.send(BudgetsCalls.history(scope, cursor=cursor, limit=limit))

    def iterate_history(self, scope: str, /, *, limit: int | None = None) -> Iterator[models.EventAnswer]:
        """List a scope's events, newest first: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(BudgetsCalls.history(scope, cursor=None, limit=limit))

    def series(
        self, scope: str, /, *, from_: str | None = None, steps: int | None = None, to: str | None = None
    ) -> models.SpendSeriesAnswer:
        """Get the units posted over time."""
        return self._sender.send(BudgetsCalls.series(scope, from_=from_, steps=steps, to=to))

    def spent(self, scope: str, /, *, from_: str | None = None, to: str | None = None) -> models.SpentAnswer:
        """Get the units posted in a period."""
        return self._sender.send(BudgetsCalls.spent(scope, from_=from_, to=to))

    def unfreeze(self, scope: str, /, **body: Unpack[models.ReasonBody]) -> models.BudgetAnswer:
        """Unfreeze a scope: admit charges again."""
        return self._sender.send(BudgetsCalls.unfreeze(scope, **body))


class AsyncBudgets:
    """The calls of `budgets`."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def list(
        self, *, cursor: str | None = None, limit: int | None = None, prefix: str | None = None
    ) -> models.PageOfBudgetAnswer:
        """List budgets by scope."""
        return await self._sender.send(BudgetsCalls.list(cursor=cursor, limit=limit, prefix=prefix))

    def iterate(self, *, limit: int | None = None, prefix: str | None = None) -> AsyncIterator[models.BudgetAnswer]:
        """List budgets by scope: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(BudgetsCalls.list(cursor=None, limit=limit, prefix=prefix))

    async def remove(self, scope: str, /, *, reason: str | None = None) -> None:
        """Remove a budget; its spend stays recorded."""
        return await self._sender.send(BudgetsCalls.remove(scope, reason=reason))

    async def get(self, scope: str, /, *, at: str | None = None) -> models.BudgetAnswer:
        """Get a budget and its balances."""
        return await self._sender.send(BudgetsCalls.get(scope, at=at))

    async def define(self, scope: str, /, **body: Unpack[models.BudgetBody]) -> models.BudgetAnswer:
        """Create or replace a budget."""
        return await self._sender.send(BudgetsCalls.define(scope, **body))

    async def credit(self, scope: str, /, **body: Unpack[models.CreditBody]) -> models.CreditedAnswer:
        """Credit units back to a scope."""
        return await self._sender.send(BudgetsCalls.credit(scope, **body))

    async def freeze(self, scope: str, /, **body: Unpack[models.ReasonBody]) -> models.BudgetAnswer:
        """Freeze a scope: refuse new charges."""
        return await self._sender.send(BudgetsCalls.freeze(scope, **body))

    async def history(
        self, scope: str, /, *, cursor: str | None = None, limit: int | None = None
    ) -> models.PageOfEventAnswer:
        """List a scope's events, newest first."""
        return await self._sender.send(BudgetsCalls.history(scope, cursor=cursor, limit=limit))

    def iterate_history(self, scope: str, /, *, limit: int | None = None) -> AsyncIterator[models.EventAnswer]:
        """List a scope's events, newest first: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(BudgetsCalls.history(scope, cursor=None, limit=limit))

    async def series(
        self, scope: str, /, *, from_: str | None = None, steps: int | None = None, to: str | None = None
    ) -> models.SpendSeriesAnswer:
        """Get the units posted over time."""
        return await self._sender.send(BudgetsCalls.series(scope, from_=from_, steps=steps, to=to))

    async def spent(self, scope: str, /, *, from_: str | None = None, to: str | None = None) -> models.SpentAnswer:
        """Get the units posted in a period."""
        return await self._sender.send(BudgetsCalls.spent(scope, from_=from_, to=to))

    async def unfreeze(self, scope: str, /, **body: Unpack[models.ReasonBody]) -> models.BudgetAnswer:
        """Unfreeze a scope: admit charges again."""
        return await self._sender.send(BudgetsCalls.unfreeze(scope, **body))


class Commands:
    """The calls of `commands`."""

    def __init__(self, sender: SyncSender) -> None:
        self._sender = sender

    def submit(self, **body: Unpack[models.CommandBody]) -> models.CommandAnswer:
        """Submit charges, redemptions and jobs in one transaction."""
        return self._sender.send(CommandsCalls.submit(**body))

    def get(self, id: str, /) -> models.CommandAnswer:
        """Get the result of a command."""
        return self._sender.send(CommandsCalls.get(id))


class AsyncCommands:
    """The calls of `commands`."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def submit(self, **body: Unpack[models.CommandBody]) -> models.CommandAnswer:
        """Submit charges, redemptions and jobs in one transaction."""
        return await self._sender.send(CommandsCalls.submit(**body))

    async def get(self, id: str, /) -> models.CommandAnswer:
        """Get the result of a command."""
        return await self._sender.send(CommandsCalls.get(id))


class Dead:
    """The calls of `dead`."""

    def __init__(self, sender: SyncSender) -> None:
        self._sender = sender

    def list(
        self,
        *,
        cursor: str | None = None,
        fingerprint: str | None = None,
        key: str | None = None,
        kind: str | None = None,
        limit: int | None = None,
        queue: str | None = None,
        tag: str | None = None,
    ) -> models.PageOfJobAnswer:
        """List dead jobs."""
        return self._sender.send(
            DeadCalls.list(
                cursor=cursor, fingerprint=fingerprint, key=key, kind=kind, limit=limit, queue=queue, tag=tag
            )
        )

    def iterate(
        self,
        *,
        fingerprint: str | None = None,
        key: str | None = None,
        kind: str | None = None,
        limit: int | None = None,
        queue: str | None = None,
        tag: str | None = None,
    ) -> Iterator[models.JobAnswer]:
        """List dead jobs: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(
            DeadCalls.list(cursor=None, fingerprint=fingerprint, key=key, kind=kind, limit=limit, queue=queue, tag=tag)
        )

    def discard(self, **body: Unpack[models.SelectionBody]) -> models.ActedAnswer:
        """Discard dead jobs."""
        return self._sender.send(DeadCalls.discard(**body))

    def groups(
        self, *, cursor: str | None = None, limit: int | None = None, queue: str | None = None
    ) -> models.PageOfDeadGroupAnswer:
        """Group dead jobs by queue, kind and error."""
        return self._sender.send(DeadCalls.groups(cursor=cursor, limit=limit, queue=queue))

    def iterate_groups(self, *, limit: int | None = None, queue: str | None = None) -> Iterator[models.DeadGroupAnswer]:
        """Group dead jobs by queue, kind and error: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(DeadCalls.groups(cursor=None, limit=limit, queue=queue))

    def move(self, **body: Unpack[models.MoveManyBody]) -> models.ActedAnswer:
        """Move dead jobs to another queue and retry them there."""
        return self._sender.send(DeadCalls.move(**body))

    def retry(self, **body: Unpack[models.SelectionBody]) -> models.ActedAnswer:
        """Retry dead jobs."""
        return self._sender.send(DeadCalls.retry(**body))


class AsyncDead:
    """The calls of `dead`."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def list(
        self,
        *,
        cursor: str | None = None,
        fingerprint: str | None = None,
        key: str | None = None,
        kind: str | None = None,
        limit: int | None = None,
        queue: str | None = None,
        tag: str | None = None,
    ) -> models.PageOfJobAnswer:
        """List dead jobs."""
        return await self._sender.send(
            DeadCalls.list(
                cursor=cursor, fingerprint=fingerprint, key=key, kind=kind, limit=limit, queue=queue, tag=tag
            )
        )

    def iterate(
        self,
        *,
        fingerprint: str | None = None,
        key: str | None = None,
        kind: str | None = None,
        limit: int | None = None,
        queue: str | None = None,
        tag: str | None = None,
    ) -> AsyncIterator[models.JobAnswer]:
        """List dead jobs: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(
            DeadCalls.list(cursor=None, fingerprint=fingerprint, key=key, kind=kind, limit=limit, queue=queue, tag=tag)
        )

    async def discard(self, **body: Unpack[models.SelectionBody]) -> models.ActedAnswer:
        """Discard dead jobs."""
        return await self._sender.send(DeadCalls.discard(**body))

    async def groups(
        self, *, cursor: str | None = None, limit: int | None = None, queue: str | None = None
    ) -> models.PageOfDeadGroupAnswer:
        """Group dead jobs by queue, kind and error."""
        return await self._sender.send(DeadCalls.groups(cursor=cursor, limit=limit, queue=queue))

    def iterate_groups(
        self, *, limit: int | None = None, queue: str | None = None
    ) -> AsyncIterator[models.DeadGroupAnswer]:
        """Group dead jobs by queue, kind and error: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(DeadCalls.groups(cursor=None, limit=limit, queue=queue))

    async def move(self, **body: Unpack[models.MoveManyBody]) -> models.ActedAnswer:
        """Move dead jobs to another queue and retry them there."""
        return await self._sender.send(DeadCalls.move(**body))

    async def retry(self, **body: Unpack[models.SelectionBody]) -> models.ActedAnswer:
        """Retry dead jobs."""
        return await self._sender.send(DeadCalls.retry(**body))


class Grants:
    """The calls of `grants`."""

    def __init__(self, sender: SyncSender) -> None:
        self._sender = sender

    def list(
        self, *, cursor: str | None = None, limit: int | None = None, order: models.ListOrder | None = None
    ) -> models.PageOfGrantAnswer:
        """List grants, without their tokens."""
        return self._sender.send(GrantsCalls.list(cursor=cursor, limit=limit, order=order))

    def iterate(
        self, *, limit: int | None = None, order: models.ListOrder | None = None
    ) -> Iterator[models.GrantAnswer]:
        """List grants, without their tokens: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(GrantsCalls.list(cursor=None, limit=limit, order=order))

    def create(self, **body: Unpack[models.MintBody]) -> models.MintedAnswer:
        """Create a grant; the response has its token, which is not shown again."""
        return self._sender.send(GrantsCalls.create(**body))

    def revoke(self, id: str, /, *, reason: str | None = None) -> None:
        """Revoke a grant."""
        return self._sender.send(GrantsCalls.revoke(id, reason=reason))

    def get(self, id: str, /, *, at: str | None = None) -> models.GrantAnswer:
        """Get a grant, without its token."""
        return self._sender.send(GrantsCalls.get(id, at=at))

    def erase(self, id: str, /, **body: Unpack[models.ReasonBody]) -> None:
        """Erase the payload of a grant that can no longer be redeemed."""
        return self._sender.send(GrantsCalls.erase(id, **body))


class AsyncGrants:
    """The calls of `grants`."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def list(
        self, *, cursor: str | None = None, limit: int | None = None, order: models.ListOrder | None = None
    ) -> models.PageOfGrantAnswer:
        """List grants, without their tokens."""
        return await self._sender.send(GrantsCalls.list(cursor=cursor, limit=limit, order=order))

    def iterate(
        self, *, limit: int | None = None, order: models.ListOrder | None = None
    ) -> AsyncIterator[models.GrantAnswer]:
        """List grants, without their tokens: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(GrantsCalls.list(cursor=None, limit=limit, order=order))

    async def create(self, **body: Unpack[models.MintBody]) -> models.MintedAnswer:
        """Create a grant; the response has its token, which is not shown again."""
        return await self._sender.send(GrantsCalls.create(**body))

    async def revoke(self, id: str, /, *, reason: str | None = None) -> None:
        """Revoke a grant."""
        return await self._sender.send(GrantsCalls.revoke(id, reason=reason))

    async def get(self, id: str, /, *, at: str | None = None) -> models.GrantAnswer:
        """Get a grant, without its token."""
        return await self._sender.send(GrantsCalls.get(id, at=at))

    async def erase(self, id: str, /, **body: Unpack[models.ReasonBody]) -> None:
        """Erase the payload of a grant that can no longer be redeemed."""
        return await self._sender.send(GrantsCalls.erase(id, **body))


class Holds:
    """The calls of `holds`."""

    def __init__(self, sender: SyncSender) -> None:
        self._sender = sender

    def list(
        self, *, cursor: str | None = None, limit: int | None = None, scope: str, state: str | None = None
    ) -> models.PageOfHoldAnswer:
        """List the unsettled holds on a scope, soonest expiry first."""
        return self._sender.send(HoldsCalls.list(cursor=cursor, limit=limit, scope=scope, state=state))

    def iterate(self, *, limit: int | None = None, scope: str, state: str | None = None) -> Iterator[models.HoldAnswer]:
        """List the unsettled holds on a scope, soonest expiry first: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(HoldsCalls.list(cursor=None, limit=limit, scope=scope, state=state))

    def place(self, **body: Unpack[models.HoldBody]) -> models.CommandAnswer:
        """Place a hold."""
        return self._sender.send(HoldsCalls.place(**body))

    def get(self, id: str, /, *, at: str | None = None) -> models.HoldAnswer:
        """Get a hold."""
        return self._sender.send(HoldsCalls.get(id, at=at))

    def commit(self, id: str, /, **body: Unpack[models.CommitBody]) -> models.SettledAnswer:
        """Commit a hold with the actual cost."""
        return self._sender.send(HoldsCalls.commit(id, **body))

    def extend(self, id: str, /, **body: Unpack[models.ExtendBody]) -> models.ExtendedAnswer:
        """Extend a hold's expiry."""
        return self._sender.send(HoldsCalls.extend(id, **body))

    def history(self, id: str, /, *, cursor: str | None = None, limit: int | None = None) -> models.PageOfEventAnswer:
        """List a hold's events, newest first."""
        return self._sender.send(HoldsCalls.history(id, cursor=cursor, limit=limit))

    def iterate_history(self, id: str, /, *, limit: int | None = None) -> Iterator[models.EventAnswer]:
        """List a hold's events, newest first: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(HoldsCalls.history(id, cursor=None, limit=limit))

    def release(self, id: str, /, **body: Unpack[models.ReasonBody]) -> models.SettledAnswer:
        """Release a hold."""
        return self._sender.send(HoldsCalls.release(id, **body))


class AsyncHolds:
    """The calls of `holds`."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def list(
        self, *, cursor: str | None = None, limit: int | None = None, scope: str, state: str | None = None
    ) -> models.PageOfHoldAnswer:
        """List the unsettled holds on a scope, soonest expiry first."""
        return await self._sender.send(HoldsCalls.list(cursor=cursor, limit=limit, scope=scope, state=state))

    def iterate(
        self, *, limit: int | None = None, scope: str, state: str | None = None
    ) -> AsyncIterator[models.HoldAnswer]:
        """List the unsettled holds on a scope, soonest expiry first: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(HoldsCalls.list(cursor=None, limit=limit, scope=scope, state=state))

    async def place(self, **body: Unpack[models.HoldBody]) -> models.CommandAnswer:
        """Place a hold."""
        return await self._sender.send(HoldsCalls.place(**body))

    async def get(self, id: str, /, *, at: str | None = None) -> models.HoldAnswer:
        """Get a hold."""
        return await self._sender.send(HoldsCalls.get(id, at=at))

    async def commit(self, id: str, /, **body: Unpack[models.CommitBody]) -> models.SettledAnswer:
        """Commit a hold with the actual cost."""
        return await self._sender.send(HoldsCalls.commit(id, **body))

    async def extend(self, id: str, /, **body: Unpack[models.ExtendBody]) -> models.ExtendedAnswer:
        """Extend a hold's expiry."""
        return await self._sender.send(HoldsCalls.extend(id, **body))

    async def history(
        self, id: str, /, *, cursor: str | None = None, limit: int | None = None
    ) -> models.PageOfEventAnswer:
        """List a hold's events, newest first."""
        return await self._sender.send(HoldsCalls.history(id, cursor=cursor, limit=limit))

    def iterate_history(self, id: str, /, *, limit: int | None = None) -> AsyncIterator[models.EventAnswer]:
        """List a hold's events, newest first: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(HoldsCalls.history(id, cursor=None, limit=limit))

    async def release(self, id: str, /, **body: Unpack[models.ReasonBody]) -> models.SettledAnswer:
        """Release a hold."""
        return await self._sender.send(HoldsCalls.release(id, **body))


class Jobs:
    """The calls of `jobs`."""

    def __init__(self, sender: SyncSender) -> None:
        self._sender = sender

    def costs(
        self, *, cursor: str | None = None, from_: str, limit: int | None = None, to: str | None = None
    ) -> models.PageOfDayCostAnswer:
        """List the cost of jobs by day, queue, kind and scope."""
        return self._sender.send(JobsCalls.costs(cursor=cursor, from_=from_, limit=limit, to=to))

    def iterate_costs(
        self, *, from_: str, limit: int | None = None, to: str | None = None
    ) -> Iterator[models.DayCostAnswer]:
        """List the cost of jobs by day, queue, kind and scope: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(JobsCalls.costs(cursor=None, from_=from_, limit=limit, to=to))

    def held(
        self, *, cursor: str | None = None, limit: int | None = None, queue: str | None = None
    ) -> models.PageOfHeldAnswer:
        """List the units held for jobs by queue, kind and unit."""
        return self._sender.send(JobsCalls.held(cursor=cursor, limit=limit, queue=queue))

    def iterate_held(self, *, limit: int | None = None, queue: str | None = None) -> Iterator[models.HeldAnswer]:
        """List the units held for jobs by queue, kind and unit: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(JobsCalls.held(cursor=None, limit=limit, queue=queue))

    def list(
        self,
        *,
        cursor: str | None = None,
        fingerprint: str | None = None,
        key: str | None = None,
        kind: str | None = None,
        limit: int | None = None,
        order: models.ListOrder | None = None,
        queue: str | None = None,
        state: str | None = None,
        tag: str | None = None,
    ) -> models.PageOfJobAnswer:
        """List jobs in the order they were enqueued."""
        return self._sender.send(
            JobsCalls.list(
                cursor=cursor,
                fingerprint=fingerprint,
                key=key,
                kind=kind,
                limit=limit,
                order=order,
                queue=queue,
                state=state,
                tag=tag,
            )
        )

    def iterate(
        self,
        *,
        fingerprint: str | None = None,
        key: str | None = None,
        kind: str | None = None,
        limit: int | None = None,
        order: models.ListOrder | None = None,
        queue: str | None = None,
        state: str | None = None,
        tag: str | None = None,
    ) -> Iterator[models.JobAnswer]:
        """List jobs in the order they were enqueued: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(
            JobsCalls.list(
                cursor=None,
                fingerprint=fingerprint,
                key=key,
                kind=kind,
                limit=limit,
                order=order,
                queue=queue,
                state=state,
                tag=tag,
            )
        )

    def enqueue(self, **body: Unpack[models.JobBody]) -> models.EnqueuedAnswer:
        """Enqueue a job."""
        return self._sender.send(JobsCalls.enqueue(**body))

    def enqueue_many(self, **body: Unpack[models.BulkBody]) -> models.EnqueuedJobsAnswer:
        """Enqueue many jobs, in transactions of up to 1000."""
        return self._sender.send(JobsCalls.enqueue_many(**body))

    def cancel_many(self, **body: Unpack[models.SelectionBody]) -> models.ActedAnswer:
        """Cancel many jobs, by id or by filter."""
        return self._sender.send(JobsCalls.cancel_many(**body))

    def edit_many(self, **body: Unpack[models.EditManyBody]) -> models.ActedAnswer:
        """Change the priority or delay of many waiting jobs, by id or by filter."""
        return self._sender.send(JobsCalls.edit_many(**body))

    def erase_many(self, **body: Unpack[models.SelectionBody]) -> models.ActedAnswer:
        """Erase the payloads and results of many ended jobs, by id or by filter."""
        return self._sender.send(JobsCalls.erase_many(**body))

    def retry_many(self, **body: Unpack[models.SelectionBody]) -> models.ActedAnswer:
        """Retry many jobs, by id or by filter."""
        return self._sender.send(JobsCalls.retry_many(**body))

    def get(self, id: str, /, *, at: str | None = None) -> models.JobAnswer:
        """Get a job."""
        return self._sender.send(JobsCalls.get(id, at=at))

    def edit(self, id: str, /, **body: Unpack[models.EditBody]) -> models.FinishedAnswer:
        """Change the priority or delay of a waiting job."""
        return self._sender.send(JobsCalls.edit(id, **body))

    def attempts(self, id: str, /) -> models.PageOfAttemptAnswer:
        """List the attempts of a job."""
        return self._sender.send(JobsCalls.attempts(id))

    def cancel(self, id: str, /, **body: Unpack[models.ReasonBody]) -> models.FinishedAnswer:
        """Cancel a job."""
        return self._sender.send(JobsCalls.cancel(id, **body))

    def discard(self, id: str, /, **body: Unpack[models.ReasonBody]) -> models.FinishedAnswer:
        """Discard a dead job."""
        return self._sender.send(JobsCalls.discard(id, **body))

    def erase(self, id: str, /, **body: Unpack[models.ReasonBody]) -> models.FinishedAnswer:
        """Erase the payload and the result of an ended job."""
        return self._sender.send(JobsCalls.erase(id, **body))

    def events(self, id: str, /, *, cursor: str | None = None, limit: int | None = None) -> models.PageOfEventAnswer:
        """List a job's events, newest first."""
        return self._sender.send(JobsCalls.events(id, cursor=cursor, limit=limit))

    def iterate_events(self, id: str, /, *, limit: int | None = None) -> Iterator[models.EventAnswer]:
        """List a job's events, newest first: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(JobsCalls.events(id, cursor=None, limit=limit))

    def move(self, id: str, /, **body: Unpack[models.MoveBody]) -> models.FinishedAnswer:
        """Move a job to another queue."""
        return self._sender.send(JobsCalls.move(id, **body))

    def retry(self, id: str, /, **body: Unpack[models.ReasonBody]) -> models.FinishedAnswer:
        """Retry a dead or cancelled job."""
        return self._sender.send(JobsCalls.retry(id, **body))


class AsyncJobs:
    """The calls of `jobs`."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def costs(
        self, *, cursor: str | None = None, from_: str, limit: int | None = None, to: str | None = None
    ) -> models.PageOfDayCostAnswer:
        """List the cost of jobs by day, queue, kind and scope."""
        return await self._sender.send(JobsCalls.costs(cursor=cursor, from_=from_, limit=limit, to=to))

    def iterate_costs(
        self, *, from_: str, limit: int | None = None, to: str | None = None
    ) -> AsyncIterator[models.DayCostAnswer]:
        """List the cost of jobs by day, queue, kind and scope: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(JobsCalls.costs(cursor=None, from_=from_, limit=limit, to=to))

    async def held(
        self, *, cursor: str | None = None, limit: int | None = None, queue: str | None = None
    ) -> models.PageOfHeldAnswer:
        """List the units held for jobs by queue, kind and unit."""
        return await self._sender.send(JobsCalls.held(cursor=cursor, limit=limit, queue=queue))

    def iterate_held(self, *, limit: int | None = None, queue: str | None = None) -> AsyncIterator[models.HeldAnswer]:
        """List the units held for jobs by queue, kind and unit: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(JobsCalls.held(cursor=None, limit=limit, queue=queue))

    async def list(
        self,
        *,
        cursor: str | None = None,
        fingerprint: str | None = None,
        key: str | None = None,
        kind: str | None = None,
        limit: int | None = None,
        order: models.ListOrder | None = None,
        queue: str | None = None,
        state: str | None = None,
        tag: str | None = None,
    ) -> models.PageOfJobAnswer:
        """List jobs in the order they were enqueued."""
        return await self._sender.send(
            JobsCalls.list(
                cursor=cursor,
                fingerprint=fingerprint,
                key=key,
                kind=kind,
                limit=limit,
                order=order,
                queue=queue,
                state=state,
                tag=tag,
            )
        )

    def iterate(
        self,
        *,
        fingerprint: str | None = None,
        key: str | None = None,
        kind: str | None = None,
        limit: int | None = None,
        order: models.ListOrder | None = None,
        queue: str | None = None,
        state: str | None = None,
        tag: str | None = None,
    ) -> AsyncIterator[models.JobAnswer]:
        """List jobs in the order they were enqueued: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(
            JobsCalls.list(
                cursor=None,
                fingerprint=fingerprint,
                key=key,
                kind=kind,
                limit=limit,
                order=order,
                queue=queue,
                state=state,
                tag=tag,
            )
        )

    async def enqueue(self, **body: Unpack[models.JobBody]) -> models.EnqueuedAnswer:
        """Enqueue a job."""
        return await self._sender.send(JobsCalls.enqueue(**body))

    async def enqueue_many(self, **body: Unpack[models.BulkBody]) -> models.EnqueuedJobsAnswer:
        """Enqueue many jobs, in transactions of up to 1000."""
        return await self._sender.send(JobsCalls.enqueue_many(**body))

    async def cancel_many(self, **body: Unpack[models.SelectionBody]) -> models.ActedAnswer:
        """Cancel many jobs, by id or by filter."""
        return await self._sender.send(JobsCalls.cancel_many(**body))

    async def edit_many(self, **body: Unpack[models.EditManyBody]) -> models.ActedAnswer:
        """Change the priority or delay of many waiting jobs, by id or by filter."""
        return await self._sender.send(JobsCalls.edit_many(**body))

    async def erase_many(self, **body: Unpack[models.SelectionBody]) -> models.ActedAnswer:
        """Erase the payloads and results of many ended jobs, by id or by filter."""
        return await self._sender.send(JobsCalls.erase_many(**body))

    async def retry_many(self, **body: Unpack[models.SelectionBody]) -> models.ActedAnswer:
        """Retry many jobs, by id or by filter."""
        return await self._sender.send(JobsCalls.retry_many(**body))

    async def get(self, id: str, /, *, at: str | None = None) -> models.JobAnswer:
        """Get a job."""
        return await self._sender.send(JobsCalls.get(id, at=at))

    async def edit(self, id: str, /, **body: Unpack[models.EditBody]) -> models.FinishedAnswer:
        """Change the priority or delay of a waiting job."""
        return await self._sender.send(JobsCalls.edit(id, **body))

    async def attempts(self, id: str, /) -> models.PageOfAttemptAnswer:
        """List the attempts of a job."""
        return await self._sender.send(JobsCalls.attempts(id))

    async def cancel(self, id: str, /, **body: Unpack[models.ReasonBody]) -> models.FinishedAnswer:
        """Cancel a job."""
        return await self._sender.send(JobsCalls.cancel(id, **body))

    async def discard(self, id: str, /, **body: Unpack[models.ReasonBody]) -> models.FinishedAnswer:
        """Discard a dead job."""
        return await self._sender.send(JobsCalls.discard(id, **body))

    async def erase(self, id: str, /, **body: Unpack[models.ReasonBody]) -> models.FinishedAnswer:
        """Erase the payload and the result of an ended job."""
        return await self._sender.send(JobsCalls.erase(id, **body))

    async def events(
        self, id: str, /, *, cursor: str | None = None, limit: int | None = None
    ) -> models.PageOfEventAnswer:
        """List a job's events, newest first."""
        return await self._sender.send(JobsCalls.events(id, cursor=cursor, limit=limit))

    def iterate_events(self, id: str, /, *, limit: int | None = None) -> AsyncIterator[models.EventAnswer]:
        """List a job's events, newest first: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(JobsCalls.events(id, cursor=None, limit=limit))

    async def move(self, id: str, /, **body: Unpack[models.MoveBody]) -> models.FinishedAnswer:
        """Move a job to another queue."""
        return await self._sender.send(JobsCalls.move(id, **body))

    async def retry(self, id: str, /, **body: Unpack[models.ReasonBody]) -> models.FinishedAnswer:
        """Retry a dead or cancelled job."""
        return await self._sender.send(JobsCalls.retry(id, **body))


class Journal:
    """The calls of `journal`."""

    def __init__(self, sender: SyncSender) -> None:
        self._sender = sender

    def activity(self) -> models.ActivityAnswer:
        """Get the spend of the last hour by minute, and notable events."""
        return self._sender.send(JournalCalls.activity())

    def read(
        self,
        *,
        after: int | None = None,
        cursor: int | None = None,
        from_: str | None = None,
        kind: str | None = None,
        limit: int | None = None,
        order: models.ListOrder | None = None,
        stream: str | None = None,
        to: str | None = None,
    ) -> models.PageOfEventAnswer:
        """List the events of the journal in commit order."""
        return self._sender.send(
            JournalCalls.read(
                after=after, cursor=cursor, from_=from_, kind=kind, limit=limit, order=order, stream=stream, to=to
            )
        )

    def iterate(
        self,
        *,
        after: int | None = None,
        from_: str | None = None,
        kind: str | None = None,
        limit: int | None = None,
        order: models.ListOrder | None = None,
        stream: str | None = None,
        to: str | None = None,
    ) -> Iterator[models.EventAnswer]:
        """List the events of the journal in commit order: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(
            JournalCalls.read(
                after=after, cursor=None, from_=from_, kind=kind, limit=limit, order=order, stream=stream, to=to
            )
        )


class AsyncJournal:
    """The calls of `journal`."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def activity(self) -> models.ActivityAnswer:
        """Get the spend of the last hour by minute, and notable events."""
        return await self._sender.send(JournalCalls.activity())

    async def read(
        self,
        *,
        after: int | None = None,
        cursor: int | None = None,
        from_: str | None = None,
        kind: str | None = None,
        limit: int | None = None,
        order: models.ListOrder | None = None,
        stream: str | None = None,
        to: str | None = None,
    ) -> models.PageOfEventAnswer:
        """List the events of the journal in commit order."""
        return await self._sender.send(
            JournalCalls.read(
                after=after, cursor=cursor, from_=from_, kind=kind, limit=limit, order=order, stream=stream, to=to
            )
        )

    def iterate(
        self,
        *,
        after: int | None = None,
        from_: str | None = None,
        kind: str | None = None,
        limit: int | None = None,
        order: models.ListOrder | None = None,
        stream: str | None = None,
        to: str | None = None,
    ) -> AsyncIterator[models.EventAnswer]:
        """List the events of the journal in commit order: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(
            JournalCalls.read(
                after=after, cursor=None, from_=from_, kind=kind, limit=limit, order=order, stream=stream, to=to
            )
        )


class Keys:
    """The calls of `keys`."""

    def __init__(self, sender: SyncSender) -> None:
        self._sender = sender

    def list(self, *, cursor: str | None = None, limit: int | None = None) -> models.PageOfCredentialAnswer:
        """List API keys, without their secrets; operators also see operator tokens."""
        return self._sender.send(KeysCalls.list(cursor=cursor, limit=limit))

    def iterate(self, *, limit: int | None = None) -> Iterator[models.CredentialAnswer]:
        """List API keys, without their secrets; operators also see operator tokens: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(KeysCalls.list(cursor=None, limit=limit))

    def create(self, **body: Unpack[models.KeyBody]) -> models.IssuedAnswer:
        """Create an API key; it is not shown again."""
        return self._sender.send(KeysCalls.create(**body))

    def revoke(self, id: str, /) -> None:
        """Revoke an API key immediately."""
        return self._sender.send(KeysCalls.revoke(id))

    def get(self, id: str, /) -> models.CredentialAnswer:
        """Get an API key, without its secret."""
        return self._sender.send(KeysCalls.get(id))

    def rotate(self, id: str, /, **body: Unpack[models.RotateBody]) -> models.IssuedAnswer:
        """Rotate an API key; the old one stays valid for the overlap."""
        return self._sender.send(KeysCalls.rotate(id, **body))


class AsyncKeys:
    """The calls of `keys`."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def list(self, *, cursor: str | None = None, limit: int | None = None) -> models.PageOfCredentialAnswer:
        """List API keys, without their secrets; operators also see operator tokens."""
        return await self._sender.send(KeysCalls.list(cursor=cursor, limit=limit))

    def iterate(self, *, limit: int | None = None) -> AsyncIterator[models.CredentialAnswer]:
        """List API keys, without their secrets; operators also see operator tokens: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(KeysCalls.list(cursor=None, limit=limit))

    async def create(self, **body: Unpack[models.KeyBody]) -> models.IssuedAnswer:
        """Create an API key; it is not shown again."""
        return await self._sender.send(KeysCalls.create(**body))

    async def revoke(self, id: str, /) -> None:
        """Revoke an API key immediately."""
        return await self._sender.send(KeysCalls.revoke(id))

    async def get(self, id: str, /) -> models.CredentialAnswer:
        """Get an API key, without its secret."""
        return await self._sender.send(KeysCalls.get(id))

    async def rotate(self, id: str, /, **body: Unpack[models.RotateBody]) -> models.IssuedAnswer:
        """Rotate an API key; the old one stays valid for the overlap."""
        return await self._sender.send(KeysCalls.rotate(id, **body))


class Links:
    """The calls of `links`."""

    def __init__(self, sender: SyncSender) -> None:
        self._sender = sender

    def list(self, *, cursor: str | None = None, limit: int | None = None) -> models.PageOfLinkInfo:
        """List links, without their addresses."""
        return self._sender.send(LinksCalls.list(cursor=cursor, limit=limit))

    def iterate(self, *, limit: int | None = None) -> Iterator[models.LinkInfo]:
        """List links, without their addresses: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(LinksCalls.list(cursor=None, limit=limit))

    def revoke(self, id: str, /) -> None:
        """Revoke a link."""
        return self._sender.send(LinksCalls.revoke(id))


class AsyncLinks:
    """The calls of `links`."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def list(self, *, cursor: str | None = None, limit: int | None = None) -> models.PageOfLinkInfo:
        """List links, without their addresses."""
        return await self._sender.send(LinksCalls.list(cursor=cursor, limit=limit))

    def iterate(self, *, limit: int | None = None) -> AsyncIterator[models.LinkInfo]:
        """List links, without their addresses: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(LinksCalls.list(cursor=None, limit=limit))

    async def revoke(self, id: str, /) -> None:
        """Revoke a link."""
        return await self._sender.send(LinksCalls.revoke(id))


class Meter:
    """The calls of `meter`."""

    def __init__(self, sender: SyncSender) -> None:
        self._sender = sender

    def check(self, **body: Unpack[models.QuotaCheckBody]) -> models.QuotaCheckAnswer:
        """Charge a caller's quota if it admits the cost."""
        return self._sender.send(MeterCalls.check(**body))

    def quota(self, *, agent_id: str | None = None) -> models.QuotaAnswer:
        """Get the quota of a caller."""
        return self._sender.send(MeterCalls.quota(agent_id=agent_id))

    def set_limit(self, **body: Unpack[models.QuotaLimitBody]) -> models.QuotaAnswer:
        """Set the limits of one caller."""
        return self._sender.send(MeterCalls.set_limit(**body))


class AsyncMeter:
    """The calls of `meter`."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def check(self, **body: Unpack[models.QuotaCheckBody]) -> models.QuotaCheckAnswer:
        """Charge a caller's quota if it admits the cost."""
        return await self._sender.send(MeterCalls.check(**body))

    async def quota(self, *, agent_id: str | None = None) -> models.QuotaAnswer:
        """Get the quota of a caller."""
        return await self._sender.send(MeterCalls.quota(agent_id=agent_id))

    async def set_limit(self, **body: Unpack[models.QuotaLimitBody]) -> models.QuotaAnswer:
        """Set the limits of one caller."""
        return await self._sender.send(MeterCalls.set_limit(**body))


class Namespaces:
    """The calls of `namespaces`."""

    def __init__(self, sender: SyncSender) -> None:
        self._sender = sender

    def list(self, *, cursor: str | None = None, limit: int | None = None) -> models.PageOfNamespaceAnswer:
        """List the namespaces that were configured, by name."""
        return self._sender.send(NamespacesCalls.list(cursor=cursor, limit=limit))

    def iterate(self, *, limit: int | None = None) -> Iterator[models.NamespaceAnswer]:
        """List the namespaces that were configured, by name: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(NamespacesCalls.list(cursor=None, limit=limit))

    def get(self, name: str, /, *, at: str | None = None) -> models.NamespaceAnswer:
        """Get the rules of a namespace."""
        return self._sender.send(NamespacesCalls.get(name, at=at))

    def define(self, name: str, /, **body: Unpack[models.NamespaceBody]) -> models.NamespaceAnswer:
        """Replace the rules of a namespace."""
        return self._sender.send(NamespacesCalls.define(name, **body))


class AsyncNamespaces:
    """The calls of `namespaces`."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def list(self, *, cursor: str | None = None, limit: int | None = None) -> models.PageOfNamespaceAnswer:
        """List the namespaces that were configured, by name."""
        return await self._sender.send(NamespacesCalls.list(cursor=cursor, limit=limit))

    def iterate(self, *, limit: int | None = None) -> AsyncIterator[models.NamespaceAnswer]:
        """List the namespaces that were configured, by name: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(NamespacesCalls.list(cursor=None, limit=limit))

    async def get(self, name: str, /, *, at: str | None = None) -> models.NamespaceAnswer:
        """Get the rules of a namespace."""
        return await self._sender.send(NamespacesCalls.get(name, at=at))

    async def define(self, name: str, /, **body: Unpack[models.NamespaceBody]) -> models.NamespaceAnswer:
        """Replace the rules of a namespace."""
        return await self._sender.send(NamespacesCalls.define(name, **body))


class Queues:
    """The calls of `queues`."""

    def __init__(self, sender: SyncSender) -> None:
        self._sender = sender

    def list(
        self,
        *,
        cursor: str | None = None,
        limit: int | None = None,
        minutes: int | None = None,
        series: bool | None = None,
    ) -> models.PageOfQueueAnswer:
        """List queues and their statistics by name."""
        return self._sender.send(QueuesCalls.list(cursor=cursor, limit=limit, minutes=minutes, series=series))

    def iterate(
        self, *, limit: int | None = None, minutes: int | None = None, series: bool | None = None
    ) -> Iterator[models.QueueAnswer]:
        """List queues and their statistics by name: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(QueuesCalls.list(cursor=None, limit=limit, minutes=minutes, series=series))

    def get(self, name: str, /, *, minutes: int | None = None, series: bool | None = None) -> models.QueueAnswer:
        """Get a queue and its statistics."""
        return self._sender.send(QueuesCalls.get(name, minutes=minutes, series=series))

    def define(self, name: str, /, **body: Unpack[models.QueueBody]) -> models.QueueAnswer:
        """Create or replace a queue."""
        return self._sender.send(QueuesCalls.define(name, **body))

    def history(self, name: str, /, *, cursor: str | None = None, limit: int | None = None) -> models.PageOfEventAnswer:
        """List a queue's changes, newest first."""
        return self._sender.send(QueuesCalls.history(name, cursor=cursor, limit=limit))

    def iterate_history(self, name: str, /, *, limit: int | None = None) -> Iterator[models.EventAnswer]:
        """List a queue's changes, newest first: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(QueuesCalls.history(name, cursor=None, limit=limit))

    def pause(self, name: str, /, **body: Unpack[models.ReasonBody]) -> models.QueueAnswer:
        """Pause a queue: lease no more jobs."""
        return self._sender.send(QueuesCalls.pause(name, **body))

    def resume(self, name: str, /, **body: Unpack[models.ReasonBody]) -> models.QueueAnswer:
        """Resume a queue."""
        return self._sender.send(QueuesCalls.resume(name, **body))


class AsyncQueues:
    """The calls of `queues`."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def list(
        self,
        *,
        cursor: str | None = None,
        limit: int | None = None,
        minutes: int | None = None,
        series: bool | None = None,
    ) -> models.PageOfQueueAnswer:
        """List queues and their statistics by name."""
        return await self._sender.send(QueuesCalls.list(cursor=cursor, limit=limit, minutes=minutes, series=series))

    def iterate(
        self, *, limit: int | None = None, minutes: int | None = None, series: bool | None = None
    ) -> AsyncIterator[models.QueueAnswer]:
        """List queues and their statistics by name: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(QueuesCalls.list(cursor=None, limit=limit, minutes=minutes, series=series))

    async def get(self, name: str, /, *, minutes: int | None = None, series: bool | None = None) -> models.QueueAnswer:
        """Get a queue and its statistics."""
        return await self._sender.send(QueuesCalls.get(name, minutes=minutes, series=series))

    async def define(self, name: str, /, **body: Unpack[models.QueueBody]) -> models.QueueAnswer:
        """Create or replace a queue."""
        return await self._sender.send(QueuesCalls.define(name, **body))

    async def history(
        self, name: str, /, *, cursor: str | None = None, limit: int | None = None
    ) -> models.PageOfEventAnswer:
        """List a queue's changes, newest first."""
        return await self._sender.send(QueuesCalls.history(name, cursor=cursor, limit=limit))

    def iterate_history(self, name: str, /, *, limit: int | None = None) -> AsyncIterator[models.EventAnswer]:
        """List a queue's changes, newest first: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(QueuesCalls.history(name, cursor=None, limit=limit))

    async def pause(self, name: str, /, **body: Unpack[models.ReasonBody]) -> models.QueueAnswer:
        """Pause a queue: lease no more jobs."""
        return await self._sender.send(QueuesCalls.pause(name, **body))

    async def resume(self, name: str, /, **body: Unpack[models.ReasonBody]) -> models.QueueAnswer:
        """Resume a queue."""
        return await self._sender.send(QueuesCalls.resume(name, **body))


class Schedules:
    """The calls of `schedules`."""

    def __init__(self, sender: SyncSender) -> None:
        self._sender = sender

    def list(self, *, cursor: str | None = None, limit: int | None = None) -> models.PageOfScheduleAnswer:
        """List schedules by name."""
        return self._sender.send(SchedulesCalls.list(cursor=cursor, limit=limit))

    def iterate(self, *, limit: int | None = None) -> Iterator[models.ScheduleAnswer]:
        """List schedules by name: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(SchedulesCalls.list(cursor=None, limit=limit))

    def remove(self, name: str, /, *, reason: str | None = None) -> None:
        """Remove a schedule; its jobs are kept."""
        return self._sender.send(SchedulesCalls.remove(name, reason=reason))

    def get(self, name: str, /, *, at: str | None = None) -> models.ScheduleAnswer:
        """Get a schedule."""
        return self._sender.send(SchedulesCalls.get(name, at=at))

    def define(self, name: str, /, **body: Unpack[models.ScheduleBody]) -> models.ScheduleAnswer:
        """Create or replace a schedule."""
        return self._sender.send(SchedulesCalls.define(name, **body))

    def pause(self, name: str, /, **body: Unpack[models.ReasonBody]) -> models.ScheduleAnswer:
        """Pause a schedule."""
        return self._sender.send(SchedulesCalls.pause(name, **body))

    def resume(self, name: str, /, **body: Unpack[models.ReasonBody]) -> models.ScheduleAnswer:
        """Resume a schedule; it continues with the next tick from now on."""
        return self._sender.send(SchedulesCalls.resume(name, **body))

    def run(self, name: str, /, **body: Unpack[models.ReasonBody]) -> models.EnqueuedAnswer:
        """Enqueue a schedule's job now."""
        return self._sender.send(SchedulesCalls.run(name, **body))


class AsyncSchedules:
    """The calls of `schedules`."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def list(self, *, cursor: str | None = None, limit: int | None = None) -> models.PageOfScheduleAnswer:
        """List schedules by name."""
        return await self._sender.send(SchedulesCalls.list(cursor=cursor, limit=limit))

    def iterate(self, *, limit: int | None = None) -> AsyncIterator[models.ScheduleAnswer]:
        """List schedules by name: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(SchedulesCalls.list(cursor=None, limit=limit))

    async def remove(self, name: str, /, *, reason: str | None = None) -> None:
        """Remove a schedule; its jobs are kept."""
        return await self._sender.send(SchedulesCalls.remove(name, reason=reason))

    async def get(self, name: str, /, *, at: str | None = None) -> models.ScheduleAnswer:
        """Get a schedule."""
        return await self._sender.send(SchedulesCalls.get(name, at=at))

    async def define(self, name: str, /, **body: Unpack[models.ScheduleBody]) -> models.ScheduleAnswer:
        """Create or replace a schedule."""
        return await self._sender.send(SchedulesCalls.define(name, **body))

    async def pause(self, name: str, /, **body: Unpack[models.ReasonBody]) -> models.ScheduleAnswer:
        """Pause a schedule."""
        return await self._sender.send(SchedulesCalls.pause(name, **body))

    async def resume(self, name: str, /, **body: Unpack[models.ReasonBody]) -> models.ScheduleAnswer:
        """Resume a schedule; it continues with the next tick from now on."""
        return await self._sender.send(SchedulesCalls.resume(name, **body))

    async def run(self, name: str, /, **body: Unpack[models.ReasonBody]) -> models.EnqueuedAnswer:
        """Enqueue a schedule's job now."""
        return await self._sender.send(SchedulesCalls.run(name, **body))


class Server:
    """The calls of `server`."""

    def __init__(self, sender: SyncSender) -> None:
        self._sender = sender

    def verify(self) -> models.VerifyAnswer:
        """Verify that balances match holds and postings."""
        return self._sender.send(ServerCalls.verify())

    def whoami(self) -> models.WhoAmIAnswer:
        """Get the caller's name, role, tenant and actions."""
        return self._sender.send(ServerCalls.whoami())


class AsyncServer:
    """The calls of `server`."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def verify(self) -> models.VerifyAnswer:
        """Verify that balances match holds and postings."""
        return await self._sender.send(ServerCalls.verify())

    async def whoami(self) -> models.WhoAmIAnswer:
        """Get the caller's name, role, tenant and actions."""
        return await self._sender.send(ServerCalls.whoami())


class Tenants:
    """The calls of `tenants`."""

    def __init__(self, sender: SyncSender) -> None:
        self._sender = sender

    def list(self, *, cursor: str | None = None, limit: int | None = None) -> models.PageOfTenantAnswer:
        """List the tenants that have budgets or other scopes, by name."""
        return self._sender.send(TenantsCalls.list(cursor=cursor, limit=limit))

    def iterate(self, *, limit: int | None = None) -> Iterator[models.TenantAnswer]:
        """List the tenants that have budgets or other scopes, by name: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(TenantsCalls.list(cursor=None, limit=limit))

    def get(self, name: str, /) -> models.TenantAnswer:
        """Check that a tenant has a scope, a queue, a schedule or a token."""
        return self._sender.send(TenantsCalls.get(name))


class AsyncTenants:
    """The calls of `tenants`."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def list(self, *, cursor: str | None = None, limit: int | None = None) -> models.PageOfTenantAnswer:
        """List the tenants that have budgets or other scopes, by name."""
        return await self._sender.send(TenantsCalls.list(cursor=cursor, limit=limit))

    def iterate(self, *, limit: int | None = None) -> AsyncIterator[models.TenantAnswer]:
        """List the tenants that have budgets or other scopes, by name: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(TenantsCalls.list(cursor=None, limit=limit))

    async def get(self, name: str, /) -> models.TenantAnswer:
        """Check that a tenant has a scope, a queue, a schedule or a token."""
        return await self._sender.send(TenantsCalls.get(name))


class Work:
    """The calls of `work`."""

    def __init__(self, sender: SyncSender) -> None:
        self._sender = sender

    def complete_all(self, **body: Unpack[models.ItemsBodyOfCompleteItem]) -> models.ItemsAnswerOfFinishedAnswer:
        """Complete many jobs."""
        return self._sender.send(WorkCalls.complete_all(**body))

    def fail_all(self, **body: Unpack[models.ItemsBodyOfFailItem]) -> models.ItemsAnswerOfFinishedAnswer:
        """Report many failed attempts."""
        return self._sender.send(WorkCalls.fail_all(**body))

    def heartbeat_all(self, **body: Unpack[models.ItemsBodyOfBeatItem]) -> models.ItemsAnswerOfBeatenAnswer:
        """Renew the leases of many jobs."""
        return self._sender.send(WorkCalls.heartbeat_all(**body))

    def lease(self, **body: Unpack[models.LeaseBody]) -> models.LeasedJobsAnswer:
        """Lease jobs, waiting for them if none are ready."""
        return self._sender.send(WorkCalls.lease(**body))

    def progress_all(self, **body: Unpack[models.ItemsBodyOfProgressItem]) -> models.ItemsAnswerOfBeatenAnswer:
        """Report the progress of many jobs and renew their leases."""
        return self._sender.send(WorkCalls.progress_all(**body))

    def hand_back_all(self, **body: Unpack[models.ItemsBodyOfReturnItem]) -> models.ItemsAnswerOfFinishedAnswer:
        """Return many jobs that were not started."""
        return self._sender.send(WorkCalls.hand_back_all(**body))

    def snooze_all(self, **body: Unpack[models.ItemsBodyOfSnoozeItem]) -> models.ItemsAnswerOfFinishedAnswer:
        """Postpone many jobs without counting attempts."""
        return self._sender.send(WorkCalls.snooze_all(**body))

    def complete(self, id: str, /, **body: Unpack[models.CompleteBody]) -> models.FinishedAnswer:
        """Complete a job."""
        return self._sender.send(WorkCalls.complete(id, **body))

    def emit(self, id: str, /, **body: Unpack[models.EmitBody]) -> None:
        """Emit an event of the application about a job."""
        return self._sender.send(WorkCalls.emit(id, **body))

    def fail(self, id: str, /, **body: Unpack[models.FailBody]) -> models.FinishedAnswer:
        """Report a failed attempt."""
        return self._sender.send(WorkCalls.fail(id, **body))

    def heartbeat(self, id: str, /, **body: Unpack[models.HeartbeatBody]) -> models.BeatenAnswer:
        """Renew the lease of a job."""
        return self._sender.send(WorkCalls.heartbeat(id, **body))

    def progress(self, id: str, /, **body: Unpack[models.ProgressBody]) -> models.BeatenAnswer:
        """Report the progress of a job and renew its lease."""
        return self._sender.send(WorkCalls.progress(id, **body))

    def hand_back(self, id: str, /, **body: Unpack[models.ReturnBody]) -> models.FinishedAnswer:
        """Return a job that was not started."""
        return self._sender.send(WorkCalls.hand_back(id, **body))

    def snooze(self, id: str, /, **body: Unpack[models.SnoozeBody]) -> models.FinishedAnswer:
        """Postpone a job without counting an attempt."""
        return self._sender.send(WorkCalls.snooze(id, **body))


class AsyncWork:
    """The calls of `work`."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def complete_all(self, **body: Unpack[models.ItemsBodyOfCompleteItem]) -> models.ItemsAnswerOfFinishedAnswer:
        """Complete many jobs."""
        return await self._sender.send(WorkCalls.complete_all(**body))

    async def fail_all(self, **body: Unpack[models.ItemsBodyOfFailItem]) -> models.ItemsAnswerOfFinishedAnswer:
        """Report many failed attempts."""
        return await self._sender.send(WorkCalls.fail_all(**body))

    async def heartbeat_all(self, **body: Unpack[models.ItemsBodyOfBeatItem]) -> models.ItemsAnswerOfBeatenAnswer:
        """Renew the leases of many jobs."""
        return await self._sender.send(WorkCalls.heartbeat_all(**body))

    async def lease(self, **body: Unpack[models.LeaseBody]) -> models.LeasedJobsAnswer:
        """Lease jobs, waiting for them if none are ready."""
        return await self._sender.send(WorkCalls.lease(**body))

    async def progress_all(self, **body: Unpack[models.ItemsBodyOfProgressItem]) -> models.ItemsAnswerOfBeatenAnswer:
        """Report the progress of many jobs and renew their leases."""
        return await self._sender.send(WorkCalls.progress_all(**body))

    async def hand_back_all(self, **body: Unpack[models.ItemsBodyOfReturnItem]) -> models.ItemsAnswerOfFinishedAnswer:
        """Return many jobs that were not started."""
        return await self._sender.send(WorkCalls.hand_back_all(**body))

    async def snooze_all(self, **body: Unpack[models.ItemsBodyOfSnoozeItem]) -> models.ItemsAnswerOfFinishedAnswer:
        """Postpone many jobs without counting attempts."""
        return await self._sender.send(WorkCalls.snooze_all(**body))

    async def complete(self, id: str, /, **body: Unpack[models.CompleteBody]) -> models.FinishedAnswer:
        """Complete a job."""
        return await self._sender.send(WorkCalls.complete(id, **body))

    async def emit(self, id: str, /, **body: Unpack[models.EmitBody]) -> None:
        """Emit an event of the application about a job."""
        return await self._sender.send(WorkCalls.emit(id, **body))

    async def fail(self, id: str, /, **body: Unpack[models.FailBody]) -> models.FinishedAnswer:
        """Report a failed attempt."""
        return await self._sender.send(WorkCalls.fail(id, **body))

    async def heartbeat(self, id: str, /, **body: Unpack[models.HeartbeatBody]) -> models.BeatenAnswer:
        """Renew the lease of a job."""
        return await self._sender.send(WorkCalls.heartbeat(id, **body))

    async def progress(self, id: str, /, **body: Unpack[models.ProgressBody]) -> models.BeatenAnswer:
        """Report the progress of a job and renew its lease."""
        return await self._sender.send(WorkCalls.progress(id, **body))

    async def hand_back(self, id: str, /, **body: Unpack[models.ReturnBody]) -> models.FinishedAnswer:
        """Return a job that was not started."""
        return await self._sender.send(WorkCalls.hand_back(id, **body))

    async def snooze(self, id: str, /, **body: Unpack[models.SnoozeBody]) -> models.FinishedAnswer:
        """Postpone a job without counting an attempt."""
        return await self._sender.send(WorkCalls.snooze(id, **body))


class Workers:
    """The calls of `workers`."""

    def __init__(self, sender: SyncSender) -> None:
        self._sender = sender

    def list(self, *, cursor: str | None = None, limit: int | None = None) -> models.PageOfCredentialAnswer:
        """List worker tokens, without their secrets."""
        return self._sender.send(WorkersCalls.list(cursor=cursor, limit=limit))

    def iterate(self, *, limit: int | None = None) -> Iterator[models.CredentialAnswer]:
        """List worker tokens, without their secrets: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(WorkersCalls.list(cursor=None, limit=limit))

    def create(self, **body: Unpack[models.WorkerBody]) -> models.IssuedAnswer:
        """Create a worker token; it is not shown again."""
        return self._sender.send(WorkersCalls.create(**body))

    def revoke(self, id: str, /) -> None:
        """Revoke a worker token immediately."""
        return self._sender.send(WorkersCalls.revoke(id))

    def get(self, id: str, /) -> models.CredentialAnswer:
        """Get a worker token, without its secret."""
        return self._sender.send(WorkersCalls.get(id))

    def rotate(self, id: str, /, **body: Unpack[models.RotateBody]) -> models.IssuedAnswer:
        """Rotate a worker token; the old one stays valid for the overlap."""
        return self._sender.send(WorkersCalls.rotate(id, **body))


class AsyncWorkers:
    """The calls of `workers`."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def list(self, *, cursor: str | None = None, limit: int | None = None) -> models.PageOfCredentialAnswer:
        """List worker tokens, without their secrets."""
        return await self._sender.send(WorkersCalls.list(cursor=cursor, limit=limit))

    def iterate(self, *, limit: int | None = None) -> AsyncIterator[models.CredentialAnswer]:
        """List worker tokens, without their secrets: reads page after page. `limit` is the size of a page."""
        return self._sender.pages(WorkersCalls.list(cursor=None, limit=limit))

    async def create(self, **body: Unpack[models.WorkerBody]) -> models.IssuedAnswer:
        """Create a worker token; it is not shown again."""
        return await self._sender.send(WorkersCalls.create(**body))

    async def revoke(self, id: str, /) -> None:
        """Revoke a worker token immediately."""
        return await self._sender.send(WorkersCalls.revoke(id))

    async def get(self, id: str, /) -> models.CredentialAnswer:
        """Get a worker token, without its secret."""
        return await self._sender.send(WorkersCalls.get(id))

    async def rotate(self, id: str, /, **body: Unpack[models.RotateBody]) -> models.IssuedAnswer:
        """Rotate a worker token; the old one stays valid for the overlap."""
        return await self._sender.send(WorkersCalls.rotate(id, **body))


class Resources:
    """The resources of a client."""

    def __init__(self, sender: SyncSender) -> None:
        self.budgets = Budgets(sender)
        self.commands = Commands(sender)
        self.dead = Dead(sender)
        self.grants = Grants(sender)
        self.holds = Holds(sender)
        self.journal = Journal(sender)
        self.keys = Keys(sender)
        self.links = Links(sender)
        self.meter = Meter(sender)
        self.namespaces = Namespaces(sender)
        self.queues = Queues(sender)
        self.schedules = Schedules(sender)
        self.server = Server(sender)
        self.tenants = Tenants(sender)
        self.work = Work(sender)
        self.workers = Workers(sender)


class AsyncResources:
    """The resources of a client."""

    def __init__(self, sender: AsyncSender) -> None:
        self.budgets = AsyncBudgets(sender)
        self.commands = AsyncCommands(sender)
        self.dead = AsyncDead(sender)
        self.grants = AsyncGrants(sender)
        self.holds = AsyncHolds(sender)
        self.journal = AsyncJournal(sender)
        self.keys = AsyncKeys(sender)
        self.links = AsyncLinks(sender)
        self.meter = AsyncMeter(sender)
        self.namespaces = AsyncNamespaces(sender)
        self.queues = AsyncQueues(sender)
        self.schedules = AsyncSchedules(sender)
        self.server = AsyncServer(sender)
        self.tenants = AsyncTenants(sender)
        self.work = AsyncWork(sender)
        self.workers = AsyncWorkers(sender)
