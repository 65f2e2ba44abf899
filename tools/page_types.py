"""Writes the TypeScript types of every answer from the structs the server sends: `python tools/page_types.py`.

The pages, the API and `--json` cannot differ then. A test writes it again and fails when the file in the tree differs.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from fairlead.explain.questions.question_catalog import QUESTIONS

TARGET = Path(__file__).resolve().parents[1] / "pages" / "src" / "api" / "types.ts"
MORE = (
    "fairlead.explain.questions.answers_whatif:WhatIf",
    "fairlead.explain.questions.answers_whatif_runs:WhatIfRunPage",
    "fairlead.explain.questions.answers_whatif_runs:WhatIfRuns",
    "fairlead.explain.questions.answers_whatif_runs:WhatIfPolicies",
    "fairlead.explain.questions.answers_setup:Setup",
    "fairlead.show.web.signin.responses:Links",
    "fairlead.show.web.signin.responses:LinkMade",
    "fairlead.show.web.signin.responses:Tokens",
    "fairlead.show.web.signin.responses:TokenMade",
    "fairlead.show.web.signin.responses:Accounts",
    "fairlead.show.web.signin.responses:Welcome",
    "fairlead.show.web.signin.responses:AuditPage",
    "fairlead.show.alerts.acknowledgement_routes:Acknowledgements",
    "fairlead.show.alerts.silence_routes:Silences",
)
"""Documents of the API that answer no question of the catalog."""
_HEAD = "// Made by tools/page_types.py from the structs of fairlead.explain.questions: change it there.\n"
_PLAIN = {
    inspect.IntType: "number",
    inspect.FloatType: "number",
    inspect.StrType: "string",
    inspect.BoolType: "boolean",
    inspect.NoneType: "null",
    inspect.AnyType: "unknown",
}


class Types:
    """Interfaces, gathered as they are met."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[type, list[str]]] = {}

    def of(self, kind: Any) -> str:
        """A type as TypeScript says it."""
        plain = _PLAIN.get(type(kind))
        if plain is not None:
            return plain
        match kind:
            case inspect.ListType() | inspect.VarTupleType() | inspect.SetType():
                inner = self.of(kind.item_type)
                return f"({inner})[]" if "|" in inner else f"{inner}[]"
            case inspect.TupleType():
                return f"[{', '.join(map(self.of, kind.item_types))}]"
            case inspect.DictType():
                return f"Record<string, {self.of(kind.value_type)}>"
            case inspect.UnionType():
                return " | ".join(dict.fromkeys(map(self.of, kind.types)))
            case inspect.LiteralType():
                return " | ".join(msgspec.json.encode(value).decode() for value in kind.values)
            case inspect.StructType():
                return self.struct(kind)
        raise TypeError(kind)

    def struct(self, kind: inspect.StructType) -> str:
        """The name of an interface."""
        name = kind.cls.__name__
        if name in self.found:
            if self.found[name][0] is not kind.cls:
                raise TypeError(f"two structs are called {name}")
            return name
        lines: list[str] = []
        self.found[name] = (kind.cls, lines)
        for field in kind.fields:
            sure = "?" if not field.required and kind.cls.__struct_config__.omit_defaults else ""
            lines.append(f"  {field.encode_name}{sure}: {self.of(field.type)};")
        return name


def written() -> str:
    """The whole file."""
    types = Types()
    answers = {name: types.of(inspect.type_info(question.answer)) for name, question in QUESTIONS.items()}
    asked = {name: types.of(inspect.type_info(question.asked)) for name, question in QUESTIONS.items()}
    for place in MORE:
        module, _, name = place.partition(":")
        if importlib.util.find_spec(module) is not None:
            types.of(inspect.type_info(getattr(importlib.import_module(module), name)))
    parts = [_HEAD]
    for name, (_, lines) in sorted(types.found.items()):
        parts.append(f"export interface {name} {{\n" + "\n".join(lines) + "\n}\n")
    parts.append("export interface Answers {\n" + "\n".join(f"  {n}: {t};" for n, t in answers.items()) + "\n}\n")
    parts.append("export interface Parameters {\n" + "\n".join(f"  {n}: {t};" for n, t in asked.items()) + "\n}\n")
    paths = "\n".join(f'  {name}: "{question.path}",' for name, question in QUESTIONS.items())
    parts.append(f"export const PATHS: Record<keyof Answers, string> = {{\n{paths}\n}};\n")
    return "\n".join(parts)


def main() -> int:
    """Writes the file."""
    TARGET.write_text(written(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
