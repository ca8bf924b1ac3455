"""Nothing acknowledged is lost: a writer is killed at random times and at every boundary of a write."""

from __future__ import annotations

import os
import random
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nova_nb.history import journal, library
from nova_nb.history.live import LiveLog
from nova_nb.history.reading import read

from .helpers import ids_in, log_of, say, session, words

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")


def killed(write: Callable[[int], None], after: float | None) -> list[str]:
    """Run `write(pipe)` in a child and kill it after some seconds (None: it kills itself); what it acknowledged."""
    out, back = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(out)
        try:
            write(back)
        finally:
            os._exit(1)
    os.close(back)
    if after is not None:
        select.select([out], [], [], 5)
        time.sleep(after)
        os.kill(pid, signal.SIGKILL)
    said = b""
    while part := os.read(out, 65536):
        said += part
    os.close(out)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status)
    return said.decode().split()


def kill_often(home: Path, kills: int, seed: int) -> None:
    """Kill the writers of one session again and again, and look after each that nothing acknowledged is gone."""
    chance = random.Random(seed)
    live = session(home, "begin")
    name, log = live.session_id, log_of(live)
    live.close()
    acknowledged: list[str] = []

    def write(pipe: int) -> None:
        live = library.resume(name, home)
        while True:
            os.write(pipe, f"{say(live, 'x' * chance.randrange(300))}\n".encode())

    for _ in range(kills):
        acknowledged += killed(write, chance.random() * 0.001)
    found = ids_in(log)
    assert [id for id in found if id in set(acknowledged)] == acknowledged
    live = library.resume(name, home)
    assert {n.id for n in live.chain} >= set(acknowledged)
    say(live, "on we go")
    assert words(live)[-1] == "on we go"
    live.close()


@pytest.mark.parametrize("seed", range(40))
def test_a_writer_killed_at_random_loses_nothing_acknowledged(tmp_path, seed):
    kill_often(tmp_path, 9, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 160))
def test_many_more_writers_killed_at_random_lose_nothing_acknowledged(tmp_path, seed):
    kill_often(tmp_path, 40, seed)


def test_a_writer_killed_at_every_byte_of_a_write_leaves_a_log_that_goes_on(tmp_path):
    live = session(tmp_path, "one", "two")
    live.close()
    length = len(log_of(live).read_bytes().splitlines()[-1]) + 1
    real = os.write
    for n, cut in enumerate([*range(length + 1), "written"]):
        if n % 20 == 0:
            live = session(tmp_path / str(n), "one", "two")
            home, name, log = tmp_path / str(n), live.session_id, log_of(live)
            live.close()

        def write(pipe: int, cut: int | str = cut, name: str = name, home: Path = home) -> None:
            live = library.resume(name, home)

            def die(fd: int, data: bytes) -> int:
                real(fd, data if cut == "written" else data[:cut])
                os.kill(os.getpid(), signal.SIGKILL)
                return 0

            journal.os.write = die
            say(live, "xyz")

        before = ids_in(log)
        assert killed(write, None) == []
        assert ids_in(log)[: len(before)] == before
        live = library.resume(name, home)
        say(live, "on")
        live.close()
        assert ids_in(log)[-1] == live.head


def test_a_log_cut_at_every_byte_of_its_last_three_records_resumes(tmp_path):
    live = session(tmp_path / "whole", "one", "two", "three", "four", "five")
    live.close()
    data = log_of(live).read_bytes()
    ends = [i + 1 for i, byte in enumerate(data) if byte == 10]
    texts = words(live)
    for cut in range(ends[-4], len(data)):
        home = tmp_path / str(cut)
        directory = home / "sessions" / live.session_id
        directory.mkdir(parents=True)
        (directory / "log.jsonl").write_bytes(data[:cut])
        back = library.resume(live.session_id, home)
        # a last line that lacks only its line end is whole: its checksum says so
        kept = sum(end <= cut or cut == end - 1 for end in ends) - 1
        assert words(back) == texts[:kept]
        say(back, "again")
        back.close()
        log = read(directory / "log.jsonl")
        assert len(log.damage) == (0 if cut in ends or cut + 1 in ends else 1)
        assert words(LiveLog(events=log.events)) == [*texts[:kept], "again"]
