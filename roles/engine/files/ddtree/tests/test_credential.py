# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""The API key as a systemd credential: there, not wanted, unusable, and hidden."""

from __future__ import annotations

from pathlib import Path

import pytest
from ddtree.credential import CredentialError, key_of, unit_key


def test_a_unit_without_credentials_has_no_key() -> None:
    assert unit_key({}) is None


def test_the_key_is_the_credential_api_key(tmp_path: Path) -> None:
    (tmp_path / "api_key").write_text(" k1 \n")
    assert unit_key({"CREDENTIALS_DIRECTORY": str(tmp_path)}) == "k1"


def test_a_unit_may_have_other_credentials_alone(tmp_path: Path) -> None:
    (tmp_path / "hub_token").write_text("t")
    assert unit_key({"CREDENTIALS_DIRECTORY": str(tmp_path)}) is None


@pytest.mark.parametrize("name", [".", "gone"])
def test_credentials_that_the_unit_does_not_see_are_a_fault(tmp_path: Path, name: str) -> None:
    with pytest.raises(CredentialError, match=r"open to everyone.*make-rshared"):
        unit_key({"CREDENTIALS_DIRECTORY": str(tmp_path / name)})


@pytest.mark.parametrize("text", ["", "\n", "two words", "two\nlines"])
def test_unusable_keys_are_refused_without_being_shown(tmp_path: Path, text: str) -> None:
    (tmp_path / "api_key").write_text(text)
    with pytest.raises(CredentialError) as error:
        key_of(tmp_path / "api_key")
    assert "two" not in str(error.value)


def test_a_key_that_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "api_key").write_bytes(b"\xff\xfe")
    for file in (tmp_path / "api_key", tmp_path / "gone"):
        with pytest.raises(CredentialError, match="cannot be read"):
            key_of(file)
