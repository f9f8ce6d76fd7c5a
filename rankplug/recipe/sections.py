"""The base of the sections of recipes: other keys are errors, and the text below a key says it."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import textwrap
from typing import Any, get_type_hints

from pydantic import ConfigDict, model_validator

DESCRIPTIONS: dict[type, dict[str, str]] = {}
"""Of the keys of each section, and below the empty key of the section itself."""


class Nothing:
    """The value of a key that has none: no type accepts it, unlike None for a key left out."""


class Section:
    """The base of all sections: other keys are errors, and so are keys without a value."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    def __init_subclass__(cls) -> None:
        """Note the texts below the fields, and add them to the docstring for ``pydoc``."""
        texts = DESCRIPTIONS[cls] = {"": inspect.cleandoc(cls.__doc__ or "")}
        try:
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
        except OSError:  # installed without source files
            return
        for base in reversed(cls.__mro__[1:]):
            texts |= {key: text for key, text in DESCRIPTIONS.get(base, {}).items() if key}
        for item, text in itertools.pairwise(getattr(tree, "body", ())):
            if isinstance(item, ast.AnnAssign) and isinstance(text, ast.Expr):
                key = ast.unparse(item.target)
                texts[key] = inspect.cleandoc(ast.literal_eval(text.value))
        types = get_type_hints(cls)
        lines = [texts[""], "", "Attributes", "----------"]
        for key in filter(None, texts):
            kind = re.sub(r"\w+\.(?=\w)", "", inspect.formatannotation(types[key]))
            lines += [f"{key} : {kind}", textwrap.indent(texts[key], "    ")]
        cls.__doc__ = "\n".join(lines)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {key: Nothing() if value is None else value for key, value in given.items()}
