"""Fixtures: a database in memory, and one on disk."""

import hypostyle
import pytest


@pytest.fixture
def con():
    with hypostyle.connect() as connection:
        yield connection


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "test.hypo"
