"""The base of every value in the core, and the one way to change a copy of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:  # mypy checks field names and types for this one; msgspec's takes Any
    from dataclasses import replace as replace
else:
    from msgspec.structs import replace as replace


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """Immutable, compared by value, strict on decode; fields are scalars, strings, tuples, records.

    Records form no cycles, so the garbage collector need not track them.
    """
