"""Holds answers against OpenAPI documents (3.0 and Swagger 2.0), as strictly as clients with
generated models do: a missing required field, a number as a string or a null where none may be is a
complaint. The part of JSON schema that those documents use, no more."""

import json
import re
from pathlib import Path

STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
TYPES = {
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "file": lambda v: True,
}


class Document:
    def __init__(self, source):
        self.doc = source if isinstance(source, dict) else json.loads(Path(source).read_text())
        self.templates = [(self._pattern(path), path) for path in self.doc["paths"]]

    @staticmethod
    def _pattern(path):
        parts = re.split(r"\{\w+\}", path)
        return re.compile("[^/]+".join(map(re.escape, parts)))

    def template(self, path):
        """The path of the document that a request's path is one of, or None. The one with the
        fewest arguments wins: /sandbox/paginated is no sandbox."""
        found = [known for pattern, known in self.templates if pattern.fullmatch(path)]
        return min(found, key=lambda known: known.count("{"), default=None)

    def operation(self, method, path):
        known = self.template(path)
        return self.doc["paths"][known].get(method.lower()) if known else None

    def describes(self, method, path):
        """True if it says what the answers to a request are."""
        operation = self.operation(method, path) or {"responses": {}}
        return any(status.isdigit() for status in operation["responses"])

    def resolve(self, schema):
        while "$ref" in schema:
            node = self.doc
            for step in schema["$ref"].removeprefix("#/").split("/"):
                node = node[step]
            schema = node
        return schema

    # ---- answers ----

    def schema(self, response):
        """Of the JSON body that an answer has, or None if it has none."""
        response = self.resolve(response)
        if "schema" in response:
            return response["schema"]
        return response.get("content", {}).get("application/json", {}).get("schema")

    def complaints(self, method, path, status, body):
        """About the answer to a request; an empty list if there are none."""
        operation = self.operation(method, path)
        if operation is None:
            return [f"{method} {path} is in no document"]
        response = operation["responses"].get(str(status))
        if response is None:
            known = " ".join(sorted(operation["responses"]))
            return [f"status {status} is none of {known}"] if status < 400 else []
        schema = self.schema(response)
        return self.check(schema, body) if schema is not None and body is not None else []

    # ---- values ----

    def check(self, schema, value, where="answer"):
        """What is wrong with a value."""
        nullable = schema.get("nullable", False)
        schema = self.resolve(schema)
        if value is None:
            may = nullable or schema.get("nullable") or not schema.keys() & {"type", "allOf"}
            return [] if may else [f"{where} is null"]
        found = []
        for part in schema.get("allOf", ()):
            found += self.check(part, value, where)
        for word in ("oneOf", "anyOf"):
            found += self._choice(schema.get(word), value, where)
        return found + self._check_type(schema, value, where)

    def _choice(self, parts, value, where):
        if not parts or any(not self.check(part, value, where) for part in parts):
            return []
        return [f"{where} is none of {len(parts)} alternatives"]

    def _check_type(self, schema, value, where):
        kind = schema.get("type", "object" if "properties" in schema else None)
        if kind and not TYPES[kind](value):
            return [f"{where} is {json.dumps(value)[:60]}, no {kind}"]
        found = []
        if "enum" in schema and value not in schema["enum"]:
            found.append(f"{where} is {value!r}, none of {schema['enum']}")
        if isinstance(value, dict):
            found += self._check_object(schema, value, where)
        elif isinstance(value, list):
            for number, item in enumerate(value):
                found += self.check(schema.get("items", {}), item, f"{where}[{number}]")
        elif isinstance(value, str):
            found += self._check_string(schema, value, where)
        elif "minimum" in schema and value < schema["minimum"]:
            found.append(f"{where} is {value}, below {schema['minimum']}")
        return found

    def _check_object(self, schema, value, where):
        required = schema.get("required", ())
        found = [f"{where}.{name} is missing" for name in required if name not in value]
        known = schema.get("properties", {})
        more = schema.get("additionalProperties", True)
        for name, item in value.items():
            if name in known:
                # an optional field may be null: generated models read it as absent
                if item is not None or name in required:
                    found += self.check(known[name], item, f"{where}.{name}")
            elif isinstance(more, dict):
                found += self.check(more, item, f"{where}.{name}")
        return found

    @staticmethod
    def _check_string(schema, value, where):
        if schema.get("format") == "date-time" and not STAMP.fullmatch(value):
            return [f"{where} is {value!r}, no time"]
        if "pattern" in schema and not re.search(schema["pattern"], value):
            return [f"{where} is {value!r}, not like {schema['pattern']}"]
        return []
