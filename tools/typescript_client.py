"""Generate the TypeScript client from the OpenAPI document: `python -m tools.typescript_client [--check]`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from devmem.server.api import openapi

FILE: Final = Path(__file__).parents[1] / "clients/typescript/devmem.ts"
_SCALARS: Final = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}

_HEAD: Final = """\
// Client of devmem's HTTP interface. Generated from its OpenAPI document by `python -m tools.typescript_client`.
// Runs wherever `fetch` exists: Node 18 and later, Deno, Bun, browsers. It has no dependencies.

export type JsonValue = string | number | boolean | null | JsonValue[] | { [key: string]: JsonValue };
"""

_CLASS: Final = """\
/** A request that was not carried out; `status` is the HTTP status, or 0 where no answer came. */
export class DevmemError extends Error {
  constructor(readonly status: number, message: string, options?: { cause?: unknown }) {
    super(message, options as ErrorOptions);
    this.name = "DevmemError";
  }
}

export interface ClientOptions {
  /** Token of `devmem mcp --add-token`. */
  token?: string;
  /** Milliseconds until a request is given up; 30,000 without it. */
  timeout?: number;
  /** Used instead of the global `fetch`. */
  fetch?: typeof fetch;
}

/** A memory behind `devmem mcp --http`. Every method throws a DevmemError where it is not carried out. */
export class DevmemClient {
  private readonly base: string;

  /** `base` is the server's address, such as "http://127.0.0.1:8000". */
  constructor(base: string, private readonly options: ClientOptions = {}) {
    this.base = base.replace(/\\/+$/, "");
  }
"""

_REQUEST: Final = """\
  private async request<T>(
    method: string, path: string, sent: { body?: unknown; query?: Record<string, unknown> } = {},
  ): Promise<T> {
    const given = Object.entries(sent.query ?? {}).filter(([, value]) => value != null);
    const texts = given.map(([key, value]) => [key, typeof value === "object" ? JSON.stringify(value) : String(value)]);
    const query = texts.length ? `?${new URLSearchParams(texts)}` : "";
    const headers: Record<string, string> = { accept: "application/json" };
    if (this.options.token !== undefined) headers.authorization = `Bearer ${this.options.token}`;
    if (sent.body !== undefined) headers["content-type"] = "application/json";
    const send = this.options.fetch ?? fetch;
    let answer: Response;
    let text: string;
    try {
      answer = await send(this.base + path + query, {
        method, headers,
        body: sent.body === undefined ? undefined : JSON.stringify(sent.body),
        signal: AbortSignal.timeout(this.options.timeout ?? 30_000),
      });
      text = await answer.text();
    } catch (cause) {
      throw new DevmemError(0, `${method} ${this.base}${path} got no answer: ${String(cause)}`, { cause });
    }
    let document: unknown;
    try {
      document = JSON.parse(text);
    } catch (cause) {
      throw new DevmemError(answer.status, `${method} ${this.base}${path} was not answered with JSON`, { cause });
    }
    if (!answer.ok) {
      const problem = (document as Partial<ProblemDocument> | null)?.error;
      throw new DevmemError(answer.status, problem?.message ?? `${method} ${path}: status ${answer.status}`);
    }
    return document as T;
  }
}
"""


def client() -> str:
    """Return the client's source."""
    document = openapi()
    schemas: Mapping[str, Any] = document["components"]["schemas"]
    # The query of a list is the type of the method's argument.
    interfaces = [_interface(name, schema) for name, schema in schemas.items() if "properties" in schema]
    methods = [
        _method(path, method, operation, schemas)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    ]
    return "\n".join([_HEAD, *interfaces, _CLASS, *methods, _REQUEST])


def _interface(name: str, schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    lines = [f"/** {schema['description']} */", f"export interface {name} {{"]
    for key, value in schema["properties"].items():
        if "description" in value:
            lines.append(f"  /** {value['description']} */")
        lines.append(f"  {key}{'' if key in required else '?'}: {_type(value)};")
    return "\n".join([*lines, "}\n"])


def _type(schema: Mapping[str, Any]) -> str:
    """Return the TypeScript type of a schema.

    Raises:
        ValueError: it is of a kind that no schema of the interface had so far.
    """
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type(each) for each in schema["anyOf"]))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(_SCALARS[each] for each in kind)
    if kind == "array":
        return f"Array<{_type(schema['items'])}>" if "items" in schema else "JsonValue[]"
    if kind == "object":
        values = schema.get("additionalProperties", True)
        return f"Record<string, {_type(values) if isinstance(values, Mapping) else 'JsonValue'}>"
    if kind in _SCALARS:
        return _SCALARS[kind]
    raise ValueError(f"no TypeScript type is known for {schema}")


def _method(path: str, method: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    parameters = operation.get("parameters", ())
    arguments, sent = [f"{each['name']}: string" for each in parameters if each["in"] == "path"], []
    if any(each["in"] == "query" for each in parameters):
        arguments.append(f"query: {_query_type(operation, schemas)} = {{}}")
        # An interface has no index signature, so it is spread into an object that has one.
        sent.append("query: { ...query }")
    if "requestBody" in operation:
        arguments.append(f"body: {_content_type(operation['requestBody'])}")
        sent.append("body")
    answer = next(_content_type(each) for status, each in operation["responses"].items() if status != "default")
    place = re.sub(r"\{(\w+)\}", r"${encodeURIComponent(\1)}", path)
    given = f", {{ {', '.join(sent)} }}" if sent else ""
    return "\n".join(
        [
            f"  /** {operation['summary']} */",
            f"  {operation['operationId']}({', '.join(arguments)}): Promise<{answer}> {{",
            f"    return this.request({method.upper()!r}, `{place}`{given});".replace("'", '"'),
            "  }\n",
        ]
    )


def _query_type(operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    """Return the name of the schema whose properties are the query."""
    names = {each["name"] for each in operation["parameters"] if each["in"] == "query"}
    return next(str(name) for name, schema in schemas.items() if set(schema.get("properties", ())) == names)


def _content_type(described: Mapping[str, Any]) -> str:
    return _type(described["content"]["application/json"]["schema"])


def main(
    check: Annotated[bool, typer.Option("--check", help="Only compare; exit with 1 where the file differs.")] = False,
) -> None:
    """Write clients/typescript/devmem.ts."""
    source = client()
    if not check:
        FILE.parent.mkdir(parents=True, exist_ok=True)
        FILE.write_text(source, encoding="utf-8")
    elif not FILE.exists() or FILE.read_text(encoding="utf-8") != source:
        typer.echo(f"{FILE.name} is out of date: make generated", err=True)
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
