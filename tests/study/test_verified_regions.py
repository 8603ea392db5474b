"""A plan whose verified regions do not fit each other is refused when it is read, not in the middle of its run."""

from __future__ import annotations

from pathlib import Path

import pytest

from brickyard import profiles
from brickyard.cli import main
from brickyard.errors import BadInputError
from brickyard.formats.fio_job import import_fio
from brickyard.schema.plan import Plan

OTHER_BLOCKS = "phase two, stream s verifies blocks of 64KiB where phase one, stream s verifies blocks of 4KiB"
OVERLAP = "phase two, stream s verifies region {}, which overlaps region {}"


def text_of(*phases: tuple[str, str]) -> str:
    text = 'title = "t"\n'
    for name, (region, more) in zip(("one", "two", "three"), phases, strict=False):
        text += f'[[phase]]\nname = "{name}"\npasses = 1\n[[phase.stream]]\nname = "s"\nregion = "{region}"\n{more}\n'
    return text


def plan_of(text: str) -> Plan:
    return profiles.validate(profiles.ProfileText("t", text, ""), [])


def stamped(size: str, more: str = "") -> str:
    return f'operations = {{ read = 0, write = 100 }}\nrequest = "{size}"\nverify = true\n{more}'


PLAIN = 'operations = { read = 0, write = 100 }\nrequest = "4KiB"'


@pytest.mark.parametrize(
    ("phases", "said"),
    [
        ((("0..16MiB", stamped("4KiB")), ("0..16MiB", stamped("64KiB"))), OTHER_BLOCKS),
        ((("0..100%", stamped("4KiB")), ("0..100%", stamped("64KiB"))), OTHER_BLOCKS),
        ((("0..16MiB", stamped("4KiB")), ("0..8MiB", stamped("4KiB"))), OVERLAP.format("0B..8MiB", "0B..16MiB")),
        ((("0..50%", stamped("4KiB")), ("40%..60%", stamped("4KiB"))), OVERLAP.format("40%..60%", "0B..50%")),
    ],
)
def test_regions_that_do_not_fit_are_refused_before_a_run(phases: tuple[tuple[str, str], ...], said: str) -> None:
    with pytest.raises(BadInputError) as told:
        plan_of(text_of(*phases))
    assert said in str(told.value)
    assert "or run the phases as profiles of their own" in str(told.value)


@pytest.mark.parametrize(
    "phases",
    [
        (("0..16MiB", stamped("4KiB")), ("0..16MiB", stamped("64KiB", 'align = "4KiB"'))),
        (("0..16MiB", stamped("4KiB")), ("16MiB..32MiB", stamped("64KiB"))),
        (("0..50%", stamped("4KiB")), ("50%..100%", stamped("64KiB"))),
        (("0..16MiB", stamped("4KiB")), ("0..16MiB", stamped("64KiB") + "\ntarget = 1")),
        # What is written without stamps in between is not verified any longer.
        (("0..16MiB", stamped("4KiB")), ("0..16MiB", PLAIN), ("0..16MiB", stamped("64KiB"))),
        # The target's size decides: they are one region of a target of 8 MiB.
        (("0..8MiB", stamped("4KiB")), ("0..100%", stamped("4KiB"))),
    ],
)
def test_regions_that_fit_are_taken(phases: tuple[tuple[str, str], ...]) -> None:
    assert plan_of(text_of(*phases)).phase


def test_a_job_of_fio_that_could_not_run_is_not_imported() -> None:
    jobs = "[one]\nrw=write\nbs=4k\nsize=16m\nverify=crc32c\n[two]\nstonewall\nrw=write\nbs=64k\n"
    with pytest.raises(BadInputError, match="phase two, stream two verifies blocks of 64KiB"):
        import_fio("job", f"[global]\nfilename=x\n{jobs}size=16m\nverify=crc32c\n", Path())


def test_a_dry_run_refuses_what_the_run_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile, target = tmp_path / "two.toml", tmp_path / "x"
    profile.write_text(text_of(("0..16MiB", stamped("4KiB")), ("0..8MiB", stamped("4KiB"))))
    for more in (["--dry-run"], []):
        assert main(["run", str(profile), str(target), "--size", "16MiB", *more]) == 2
        assert "which overlaps region 0B..16MiB" in capsys.readouterr().err
        assert not target.exists()
