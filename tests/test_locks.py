"""Locks: one process at a time, let go with the process however it ends, never a mere file."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from pathlib import Path

import filelock
import pytest

from adlm.data.cache import locked
from adlm.errors import UserError
from adlm.locks import SystemLock, hold

HOLDER = (
    "import sys, time; from pathlib import Path; from adlm.locks import hold;"
    "held = hold(Path(sys.argv[1])); print('held', flush=True); time.sleep(600)"
)


def test_a_lock_goes_with_its_process_even_when_it_is_killed(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    assert process.stdout.readline() == "held\n"
    with pytest.raises(UserError, match="another process is training in"):
        hold(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert (tmp_path / ".lock").is_file()  # the file is no lock
    hold(tmp_path)


def test_letting_go_of_the_result_or_leaving_its_context_unlocks(tmp_path):
    held = hold(tmp_path)
    with pytest.raises(UserError, match="another process"):
        hold(tmp_path)
    del held
    with hold(tmp_path), pytest.raises(UserError, match="another process"):
        hold(tmp_path)
    with hold(tmp_path):
        pass


def test_a_disk_without_locks_is_said_and_no_file_becomes_the_lock(tmp_path, monkeypatch):
    assert not issubclass(SystemLock, filelock.SoftFileLock)

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("filelock._unix._lock_fd_nonblocking", refuse)
    with pytest.raises(OSError, match="not implemented"):
        hold(tmp_path)
    with pytest.raises(UserError, match="set ADLM_CACHE"), locked(Path(tmp_path / "store")):
        pass
