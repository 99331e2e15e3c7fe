"""Lets pandas read Parquet where neither pyarrow nor fastparquet is installed (Debian has neither).

cay_parquet.pth calls install() when an interpreter starts. That only adds a finder, which waits for
pandas.io.parquet; the reader itself is imported with the first file."""

import importlib.abc
import importlib.machinery
import sys


def _serve(parquet):
    """What pandas finds reads it; we do where it finds nothing, and nothing was asked for."""
    get_engine = parquet.get_engine

    def get_any_engine(engine):
        try:
            return get_engine(engine)
        except ImportError as error:
            if engine != "auto" or parquet.get_option("io.parquet.engine") != "auto":
                raise
            missing = error
        from cay_parquet.tables import Engine
        return Engine(missing)

    parquet.get_engine = get_any_engine


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != "pandas.io.parquet":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            _serve(module)

        spec.loader.exec_module = exec_module
        return spec


def install():
    if "pandas.io.parquet" in sys.modules:
        _serve(sys.modules["pandas.io.parquet"])
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
