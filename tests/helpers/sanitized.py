"""A pytest plugin: the compiled core of the file $MERCER_SANITIZED (make test-sanitize)."""

import importlib.util
import os
import sys

import mercer

_spec = importlib.util.spec_from_file_location("mercer._native", os.environ["MERCER_SANITIZED"])
assert _spec is not None and _spec.loader is not None
_native = importlib.util.module_from_spec(_spec)
sys.modules["mercer._native"] = _native
_spec.loader.exec_module(_native)
mercer._native = _native  # type: ignore[attr-defined]
