"""One writer at a time: a second is refused by name, a dead one's place is taken."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import nova_nb as nova
from nova_nb.errors import LogWriteError, SessionError, SessionLocked
from nova_nb.history import library
from nova_nb.history.events import Note

from .helpers import log_of, say, session, words

HOLD = """
import sys
from nova_nb.history import library
live = library.resume(sys.argv[1], sys.argv[2])
print("open", flush=True)
sys.stdin.read()
"""


def holder(name: str, home: Path) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": str(Path(nova.__file__).parents[1])}
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, name, str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
    )
    assert child.stdout.readline() == "open\n"
    return child


def test_a_second_process_is_refused_with_the_holders_pid_and_host(tmp_path):
    live = session(tmp_path, "one")
    live.close()
    child = holder(live.session_id, tmp_path)
    try:
        with pytest.raises(SessionLocked, match=rf"process {child.pid} on {socket.gethostname()}"):
            library.resume(live.session_id, tmp_path)
        fork = library.fork(live.session_id, home=tmp_path)  # beside it is allowed
        assert words(fork) == ["one"]
        fork.close()
        assert len(nova.open_session(log_of(live)).request().messages) == 1  # so is reading
    finally:
        child.communicate("")
    library.resume(live.session_id, tmp_path).close()


def test_the_place_of_a_dead_writer_is_taken_and_reported(tmp_path):
    live = session(tmp_path, "one")
    live.close()
    child = holder(live.session_id, tmp_path)
    child.send_signal(signal.SIGKILL)
    child.wait()
    back = library.resume(live.session_id, tmp_path)
    note = back.events[-1]
    assert isinstance(note, Note)
    assert (note.kind, note.meta["pid"]) == ("writer_died", child.pid)
    say(back, "two")
    back.close()
    again = library.resume(live.session_id, tmp_path)
    assert sum(isinstance(e, Note) for e in again.events) == 1


def test_the_same_process_is_refused_too(tmp_path):
    live = session(tmp_path, "one")
    with pytest.raises(SessionLocked, match="this process"):
        library.resume(live.session_id, tmp_path)
    live.close()
    library.resume(live.session_id, tmp_path).close()


@pytest.fixture
def disk(tmp_path):
    """A small file system of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    if shutil.which("mount") is None or subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=96k", "tmpfs", str(place)], capture_output=True
    ).returncode:  # fmt: skip
        pytest.skip("mounting a tmpfs is not permitted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_stops_the_turn_and_leaves_no_half_line(disk):
    live = session(disk, "one", fsync="durable")
    told = []

    def fill() -> None:
        while True:
            told.append(say(live, "x" * 5_000))

    with pytest.raises(LogWriteError, match="No space left"):
        fill()
    assert log_of(live).read_bytes().endswith(b"}\n")
    assert [n.id for n in live.chain][1:] == told
    small = say(live, "still room for this")  # what fits is still taken
    live.close()
    back = library.resume(live.session_id, disk)
    assert [n.id for n in back.chain][1:] == [*told, small]
    back.close()


def test_a_full_disk_refuses_a_new_session_with_what_to_do(disk):
    (disk / "filler").write_bytes(b"x" * 90_000)

    def fill() -> None:
        for _ in range(40):
            session(disk, "one").close()

    with pytest.raises((LogWriteError, SessionError), match="No space left"):
        fill()


def test_a_read_only_directory_says_how_to_read_it(disk):
    live = session(disk, "one")
    live.close()
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    with pytest.raises(SessionError, match="open_session"):
        library.resume(live.session_id, disk)
    with pytest.raises(LogWriteError, match="NOVA_HOME"):
        library.create(home=disk)
    assert nova.open_session(log_of(live)).request().messages[0]["content"][0]["text"] == "one"
