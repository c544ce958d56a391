"""Generates `bursar/models.py` and `bursar/_resources.py` from `docs/openapi.json`.

Usage: `generate.py` writes the files; `generate.py --check` fails if they are not current. Ruff formats the files.
"""

from __future__ import annotations

import json
import keyword
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DOCUMENT = HERE.parents[2] / "docs" / "openapi.json"
PACKAGE = HERE.parent / "src" / "bursar"

# Routes that the package implements by hand (streams), or that are not for programs.
EXCLUDED = re.compile(r"^(?!/v1/)|^/v1/(openapi\.json|events|blobs/uploads|graphql|ws)(/|$)")
STREAMED = {"POST /v1/blobs", "GET /v1/blobs/{id}"}
# Resources whose generated calls a class of the package extends; the clients create them.
EXTENDED = {"blobs", "jobs"}

# The resource and the method of routes that do not follow the rule of `name_of`.
NAMED = {
    "GET /v1/activity": "journal.activity",
    "GET /v1/costs": "jobs.costs",
    "GET /v1/held": "jobs.held",
    "GET /v1/journal": "journal.read",
    "GET /v1/meter/quota": "meter.quota",
    "POST /v1/meter/quota/limit": "meter.set_limit",
    "GET /v1/verify": "server.verify",
    "GET /v1/whoami": "server.whoami",
    "DELETE /v1/blobs/{id}": "blobs.delete",
    "PUT /v1/blobs/{id}/references/{name}": "blobs.add_reference",
    "DELETE /v1/blobs/{id}/references/{name}": "blobs.remove_reference",
    "POST /v1/budgets/{scope}/credits": "budgets.credit",
    "POST /v1/commands": "commands.submit",
    "POST /v1/jobs": "jobs.enqueue",
    "POST /v1/jobs/bulk": "jobs.enqueue_many",
    "POST /v1/jobs/cancel": "jobs.cancel_many",
    "POST /v1/jobs/edit": "jobs.edit_many",
    "POST /v1/jobs/erase": "jobs.erase_many",
    "POST /v1/jobs/retry": "jobs.retry_many",
    "POST /v1/jobs/{id}/events": "work.emit",
    "POST /v1/holds": "holds.place",
    "DELETE /v1/grants/{id}": "grants.revoke",
    "DELETE /v1/keys/{id}": "keys.revoke",
    "DELETE /v1/links/{id}": "links.revoke",
    "DELETE /v1/workers/{id}": "workers.revoke",
}
# The reports of workers, which the resource `work` has: one job by its id, or many in one request.
REPORTS = {"heartbeat", "progress", "complete", "fail", "snooze", "return"}


def main() -> int:
    document = json.loads(DOCUMENT.read_text())
    files = {"models.py": models(document), "_resources.py": resources(document)}
    stale = False
    for name, text in files.items():
        path = PACKAGE / name
        text = formatted(text, name)
        if sys.argv[1:] == ["--check"]:
            if not path.exists() or path.read_text() != text:
                print(f"src/bursar/{name} is not current; run `sdk/python/check --fix`", file=sys.stderr)
                stale = True
        else:
            path.write_text(text)
    return 1 if stale else 0


def formatted(text: str, name: str) -> str:
    for command in (["check", "--fix", "--quiet", "--select", "I,F401"], ["format", "--quiet"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(PACKAGE / name), "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout
    return text


# Models


def models(document: dict[str, Any]) -> str:
    out = Models()
    for name, schema in sorted(document["components"]["schemas"].items()):
        out.define(name, schema)
    return "\n".join(
        [
            '"""The shapes of requests and answers. Generated from docs/openapi.json by scripts/generate.py."""',
            "",
            "from __future__ import annotations",
            "",
            "from typing import Any, Literal, TypeAlias, Union",
            "",
            "from typing_extensions import NotRequired, TypedDict",
            "",
            *out.classes,
            *out.aliases,
        ]
    )


class Models:
    """Collects the definitions of models. Aliases come last, because they are evaluated when the module is imported."""

    def __init__(self) -> None:
        self.classes: list[str] = []
        self.aliases: list[str] = []

    def define(self, name: str, schema: dict[str, Any]) -> None:
        if schema.get("type") == "object":
            self.classes.append(typed_dict(name, schema))
        elif variants := schema.get("oneOf") or schema.get("anyOf"):
            if all("const" in variant for variant in variants):
                words = ", ".join(repr(variant["const"]) for variant in variants)
                self.alias(name, f"Literal[{words}]", schema)
            else:
                self.alias(name, f"Union[{', '.join(self.variant(name, variant) for variant in variants)}]", schema)
        else:
            self.alias(name, type_of(schema), schema)

    def alias(self, name: str, value: str, schema: dict[str, Any]) -> None:
        self.aliases.append(f"{name}: TypeAlias = {value}\n{docstring(schema)}\n")

    def variant(self, name: str, schema: dict[str, Any]) -> str:
        if "$ref" in schema:
            return reference(schema)
        tags = [field["const"] for field in schema["properties"].values() if "const" in field]
        tag = tags[0] if tags else schema["required"][0]
        self.define(name + camel(tag), schema)
        return name + camel(tag)


def typed_dict(name: str, schema: dict[str, Any]) -> str:
    required = set(schema.get("required", []))
    fields = {
        field: value if field in required else f"NotRequired[{value}]"
        for field, value in ((field, type_of(part)) for field, part in schema.get("properties", {}).items())
    }
    if any(keyword.iskeyword(field) for field in fields):
        pairs = ", ".join(f"{field!r}: {value!r}" for field, value in fields.items())
        return f'{name} = TypedDict("{name}", {{{pairs}}})\n{docstring(schema)}\n'
    lines = [f"class {name}(TypedDict):", indented(docstring(schema) or ("" if fields else "pass"))]
    for field, value in fields.items():
        lines += [f"    {field}: {value}", indented(docstring(schema["properties"][field]))]
    return "\n".join(lines) + "\n"


def type_of(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return reference(schema)
    if "const" in schema:
        return f"Literal[{schema['const']!r}]"
    if "enum" in schema:
        return f"Literal[{', '.join(map(repr, schema['enum']))}]"
    if variants := schema.get("anyOf") or schema.get("oneOf"):
        return " | ".join(type_of(variant) for variant in variants)
    kinds = schema.get("type", "any")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    return " | ".join(simple_type(kind, schema) for kind in kinds)


def simple_type(kind: str, schema: dict[str, Any]) -> str:
    if kind == "array":
        return f"list[{type_of(schema.get('items', {}))}]"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"dict[str, {type_of(values) if isinstance(values, dict) else 'Any'}]"
    return {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}.get(kind, "Any")


def reference(schema: dict[str, Any]) -> str:
    return str(schema["$ref"]).rsplit("/", 1)[1]


def docstring(schema: dict[str, Any]) -> str:
    text = " ".join(schema.get("description", "").split())
    return f'"""{text}"""' if text else ""


def indented(text: str) -> str:
    return f"    {text}" if text else ""


def camel(word: str) -> str:
    return "".join(part.capitalize() for part in re.split(r"[^a-zA-Z0-9]", word))


# Resources


@dataclass
class Route:
    verb: str
    path: str
    summary: str
    parameters: list[dict[str, Any]]
    body: str | None
    answer: str | None
    resource: str
    method: str

    @property
    def places(self) -> list[str]:
        return re.findall(r"{(\w+)}", self.path)

    @property
    def query(self) -> list[dict[str, Any]]:
        return [parameter for parameter in self.parameters if parameter["in"] == "query"]

    @property
    def has_key(self) -> bool:
        return any(parameter["name"] == "Idempotency-Key" for parameter in self.parameters)

    @property
    def pages(self) -> bool:
        return any(parameter["name"] == "cursor" for parameter in self.query)


def resources(document: dict[str, Any]) -> str:
    routes = list(all_routes(document))
    items = {
        name: type_of(schema["properties"]["items"]["items"])
        for name, schema in document["components"]["schemas"].items()
        if name.startswith("PageOf")
    }
    names = sorted({route.resource for route in routes})
    lines = [
        '"""The calls of the HTTP API, by resource. Generated from docs/openapi.json by scripts/generate.py."""',
        "",
        "from __future__ import annotations",
        "",
        "from collections.abc import AsyncIterator, Iterator",
        "from typing import Any",
        "",
        "from typing_extensions import Unpack",
        "",
        "from bursar import models",
        "from bursar._call import Call, path, query",
        "from bursar._sending import AsyncSender, SyncSender",
        "",
    ]
    for name in names:
        own = [route for route in routes if route.resource == name]
        lines += [f"class {camel(name)}Calls:", f'    """Builds the calls of `{name}`."""', ""]
        for route in own:
            lines += builder(route)
    for name in names:
        own = [route for route in routes if route.resource == name]
        for is_async in (False, True):
            lines += face(name, own, items, is_async)
    for is_async in (False, True):
        lines += group([name for name in names if name not in EXTENDED], is_async)
    return "\n".join(lines)


def all_routes(document: dict[str, Any]) -> Any:
    for path, verbs in document["paths"].items():
        if EXCLUDED.match(path):
            continue
        for verb, operation in verbs.items():
            if f"{verb.upper()} {path}" in STREAMED:
                continue
            content = operation.get("requestBody", {}).get("content", {})
            answers = (operation["responses"].get(status, {}).get("content", {}) for status in ("200", "201"))
            answer = next((found["application/json"] for found in answers if "application/json" in found), None)
            resource, method = name_of(verb.upper(), path)
            yield Route(
                verb=verb.upper(),
                path=path,
                summary=operation["summary"],
                parameters=operation.get("parameters", []),
                body=reference(content["application/json"]["schema"]) if content else None,
                answer=type_of(answer["schema"]) if answer else None,
                resource=resource,
                method=method,
            )


def name_of(verb: str, path: str) -> tuple[str, str]:
    """Returns the resource and the method of a route, such as `budgets` and `define`."""
    if named := NAMED.get(f"{verb} {path}"):
        resource, method = named.split(".")
        return resource, method
    first, *rest = path.removeprefix("/v1/").split("/")
    words = [part.replace("-", "_") for part in rest if not part.startswith("{")]
    if first == "jobs" and words and words[-1] in REPORTS | {"lease"}:
        word = {"return": "hand_back"}.get(words[-1], words[-1])
        return "work", word if rest[0].startswith("{") or word == "lease" else f"{word}_all"
    if words:
        return first, "_".join(words if verb in ("GET", "POST") else [verb.lower(), *words])
    if rest:
        return first, {"GET": "get", "PUT": "define", "PATCH": "edit", "DELETE": "remove"}[verb]
    return first, {"GET": "list", "POST": "create"}[verb]


def arguments(route: Route, *, paged: bool = True) -> str:
    parts = [f"{place}: str" for place in route.places]
    parts += ["/"] if parts else []
    query = [parameter for parameter in route.query if paged or parameter["name"] not in ("cursor",)]
    parts += ["*"] if query and not route.body else []
    for parameter in query:
        value = qualified(type_of(parameter["schema"]))
        if parameter["required"]:
            parts.append(f"{identifier(parameter['name'])}: {value}")
        else:
            value = value if "None" in value else f"{value} | None"
            parts.append(f"{identifier(parameter['name'])}: {value} = None")
    if route.body:
        parts.append(f"**body: Unpack[models.{route.body}]")
    return ", ".join(["self", *parts])


def passed(route: Route) -> str:
    parts = [*route.places, *(f"{identifier(q['name'])}={identifier(q['name'])}" for q in route.query)]
    parts += ["**body"] if route.body else []
    return ", ".join(parts)


def builder(route: Route) -> list[str]:
    segments = ", ".join(
        part[1:-1] if part.startswith("{") else repr(part) for part in route.path.removeprefix("/").split("/")
    )
    options = ["idempotent=True"] if not route.has_key and route.verb != "GET" else []
    options += ['waits=body.get("wait_ms", 0) / 1000'] if route.path.endswith("/lease") else []
    options += ["body=body"] if route.body else []
    if route.query:
        pairs = ", ".join(f"{q['name']!r}: {identifier(q['name'])}" for q in route.query)
        options.append(f"query=query({{{pairs}}})")
    call = ", ".join([repr(route.verb), f"path({segments})", *options])
    signature = arguments(route).removeprefix("self").removeprefix(", ")
    return [
        "    @staticmethod",
        f"    def {route.method}({signature}) -> Call[{answer_of(route)}]:",
        f"        return Call({call})",
        "",
    ]


def face(name: str, routes: list[Route], items: dict[str, str], is_async: bool) -> list[str]:
    prefix, sender = ("Async", "AsyncSender") if is_async else ("", "SyncSender")
    define, wait = ("async def", "await ") if is_async else ("def", "")
    lines = [
        f"class {prefix}{camel(name)}:",
        f'    """The calls of `{name}`."""',
        "",
        f"    def __init__(self, sender: {sender}) -> None:",
        "        self._sender = sender",
        "",
    ]
    for route in routes:
        call = f"{camel(name)}Calls.{route.method}({passed(route)})"
        lines += [
            f"    {define} {route.method}({arguments(route)}) -> {answer_of(route)}:",
            f'        """{route.summary}."""',
            f"        return {wait}self._sender.send({call})",
            "",
        ]
        if route.pages and route.answer in items:
            lines += iteration(name, route, qualified(items[route.answer]), is_async)
    return lines


def iteration(name: str, route: Route, item: str, is_async: bool) -> list[str]:
    method = "iterate" if route.method in ("list", "read") else f"iterate_{route.method}"
    iterator = "AsyncIterator" if is_async else "Iterator"
    call = f"{camel(name)}Calls.{route.method}({passed(route).replace('cursor=cursor', 'cursor=None')})"
    return [
        f"    def {method}({arguments(route, paged=False)}) -> {iterator}[{item}]:",
        f'        """{route.summary}: reads page after page. `limit` is the size of a page."""',
        f"        return self._sender.pages({call})",
        "",
    ]


def group(names: list[str], is_async: bool) -> list[str]:
    prefix, sender = ("Async", "AsyncSender") if is_async else ("", "SyncSender")
    lines = [f"class {prefix}Resources:", '    """The resources of a client."""', ""]
    lines += [f"    def __init__(self, sender: {sender}) -> None:"]
    lines += [f"        self.{name} = {prefix}{camel(name)}(sender)" for name in names]
    return [*lines, ""]


def answer_of(route: Route) -> str:
    return qualified(route.answer) if route.answer else "None"


def qualified(value: str) -> str:
    return re.sub(r"\b(?!None\b|Literal\b|Any\b)([A-Z]\w+)", r"models.\1", value)


def identifier(name: str) -> str:
    name = name.replace("-", "_").lower()
    return f"{name}_" if keyword.iskeyword(name) else name


if __name__ == "__main__":
    raise SystemExit(main())
