"""HumanEval: real programs in real walls, exact pass@k, and nothing run without permission."""

from __future__ import annotations

import itertools
import json
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from adlm import errors, visible
from adlm.cli import main
from adlm.data.vocab import byte_vocab
from adlm.eval import humaneval, sandbox, walls
from adlm.eval.examine import examine
from adlm.eval.humaneval import pass_at
from adlm.eval.programs import (
    Form,
    ProgramTask,
    around,
    completion,
    form,
    open_tasks,
    program,
    truncate,
)
from adlm.eval.sandbox import Limits, run
from adlm.train.run import train
from tests.conftest import make_config

QUICK = Limits(seconds=3)
TASKS = [
    ProgramTask(
        "T/0",
        "def f():\n",
        "    x = 1\n    return x\n",
        "def check(g):\n    assert g() == 1\n",
        "f",
    ),
    ProgramTask(
        "T/1", "def two():\n", "    return 2\n", "def check(g):\n    assert g() == 2\n", "two"
    ),
]


@pytest.fixture(params=["bubblewrap", "namespaces"])
def full(request, monkeypatch) -> str:
    """Full isolation in either way, where this machine permits it."""
    way = request.param
    if way == "bubblewrap" and not sandbox.bubblewrap():
        pytest.skip("no bubblewrap here, or it does not work with this user and interpreter")
    monkeypatch.setattr(sandbox, "bubblewrap", lambda: way == "bubblewrap")
    tried = run("pass")
    if tried.verdict == "unavailable" and "unshare" in tried.detail:
        pytest.skip(f"no namespaces here: {tried.detail}")
    assert tried.verdict == "passed", tried
    return way


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps(vars(t)) + "\n" for t in TASKS))
    return path


@pytest.fixture
def trained(text_file, tmp_path):
    def make(objective: str = "mdlm") -> str:
        train(make_config(text_file, objective, steps=2), tmp_path / objective)
        return str(tmp_path / objective)

    return make


def real(shared: Path) -> list[ProgramTask]:
    if not (shared / "humaneval").is_dir():
        pytest.skip("no HumanEval")
    return open_tasks(None, str(shared))


def examined(task: ProgramTask, source: str, **how) -> sandbox.Outcome:
    known = task.prompt + task.canonical_solution
    return examine(source, known, task.test, task.entry_point, **how)


def check_known(tasks: list[ProgramTask]) -> None:
    """The known solutions pass, also as the filling of a hole; an empty function does not."""
    for task in tasks:
        right = examined(task, program(task, "complete", 0, truncate(task.canonical_solution)))
        assert right.verdict == "passed", (task.task_id, right)
        before, line, after = around(task, "infill", 3)
        assert before + line + after == task.prompt + task.canonical_solution
        assert program(task, "infill", 3, line) == program(
            task, "complete", 0, around(task, "complete", 3)[1]
        )
        wrong = examined(task, program(task, "complete", 0, "    return None\n"))
        assert wrong.verdict in ("failed", "raised"), (task.task_id, wrong)


def test_known_solutions_pass_and_wrong_ones_fail(full, shared):
    tasks = real(shared)
    assert len(tasks) == 164
    check_known(tasks[::8])


@pytest.mark.slow
def test_every_known_solution_passes(full, shared):
    check_known(real(shared))


ENDS = pytest.mark.parametrize(
    ("source", "verdict", "detail"),
    [
        ("x = 1", "passed", ""),
        ("assert 1 == 2, 'no'", "failed", "AssertionError: no"),
        ("1 / 0", "raised", "ZeroDivisionError"),
        ("def f(:", "raised", "SyntaxError"),
        ("raise SystemExit(0)", "raised", "SystemExit"),
        ("import os; os._exit(0)", "raised", "exit code 0 before its end"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "raised", "signal 11"),
        ("input()", "raised", "EOFError"),
        ("x = bytearray(1 << 30)", "raised", "MemoryError"),
        ("x = []\nwhile True: x.append(bytearray(1 << 20))", "raised", "MemoryError"),
        ("open('a', 'wb').write(b'x' * (9 << 20))", "raised", "File too large"),
        ("files = [open(f'f{i}', 'w') for i in range(99)]", "raised", "Too many open files"),
        ("import os; assert 'HOME' not in os.environ", "passed", ""),
        ("import numpy", "raised", "ModuleNotFoundError"),
        ("open('a', 'w').write('b'); assert open('a').read() == 'b'", "passed", ""),
        ("import os; assert len(open(os.__file__).read()) > 1000", "passed", ""),
    ],
)


@ENDS
def test_how_a_program_ends_is_told(full, source, verdict, detail):
    found = run(source)
    assert found.verdict == verdict, found
    assert detail in found.detail


@ENDS
def test_how_a_program_with_limits_alone_ends_is_told(source, verdict, detail):
    found = run(source, isolation="limits")
    assert found.verdict == verdict, found
    assert detail in found.detail


@pytest.mark.parametrize("source", ["while True: pass", "import time; time.sleep(60)"])
def test_an_endless_program_is_stopped(full, source):
    began = time.monotonic()
    assert run(source, replace(QUICK, seconds=1)).verdict == "timeout"
    assert time.monotonic() - began < 10


def test_cpu_time_is_limited_too(full):
    plan = "import resource; print(resource.getrlimit(resource.RLIMIT_CPU))"
    assert run(plan, replace(QUICK, seconds=2.5)).output == "(3, 4)\n"
    spent = "import os, signal; os.kill(os.getpid(), signal.SIGXCPU)"
    assert run(spent).verdict == "timeout"


def named(name: str) -> int:
    """Processes of this name on the whole machine."""
    count = 0
    for path in Path("/proc").glob("[0-9]*/comm"):
        try:
            count += path.read_text().strip() == name
        except OSError:
            continue
    return count


def test_a_fork_bomb_is_bounded_and_ended(full):
    name = f"bomb{time.monotonic_ns() % 10**8}"
    bomb = (
        f"import ctypes, os\nctypes.CDLL(None).prctl(15, b'{name}', 0, 0, 0)\n"
        "while True:\n    try:\n        os.fork() or os.setsid()\n    except OSError: pass\n"
    )
    found, most = [], 0
    thread = threading.Thread(target=lambda: found.append(run(bomb, QUICK)))
    thread.start()
    while thread.is_alive():
        most = max(most, named(name))
        time.sleep(0.05)
    assert found[0].verdict == "timeout"
    assert 2 <= most <= QUICK.processes
    assert named(name) == 0, "all of them ended with the program"


def test_what_a_program_leaves_behind_ends_with_it(full):
    name = f"left{time.monotonic_ns() % 10**8}"
    source = (
        f"import ctypes, os, time\nctypes.CDLL(None).prctl(15, b'{name}', 0, 0, 0)\n"
        "if os.fork() == 0:\n    os.setsid()\n    time.sleep(60)\n"
    )
    assert run(source).verdict == "passed"
    assert named(name) == 0


def test_no_network(full):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        source = f"import socket; socket.create_connection(('127.0.0.1', {port}), timeout=2)"
        assert run(source, isolation="limits").verdict == "passed", "there is someone to reach"
        inside = run(source)
        assert inside.verdict == "raised"
        assert "unreachable" in inside.detail or "refused" in inside.detail
        abstract = "import socket; s = socket.socket(socket.AF_UNIX); s.connect('\\0adlm-test')"
        with socket.socket(socket.AF_UNIX) as other:
            other.bind("\0adlm-test")
            other.listen()
            assert run(abstract, isolation="limits").verdict == "passed"
            assert "refused" in run(abstract).detail


def test_no_files_but_its_own(full, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("x")
    secret.chmod(0o666)
    assert run(f"open({str(secret)!r}).read()", isolation="limits").verdict == "passed"
    assert "FileNotFoundError" in run(f"open({str(secret)!r}).read()").detail
    for path in ("/usr/adlm-test", "/adlm-test", humaneval.__file__):
        assert run(f"open({path!r}, 'a')").verdict == "raised", path
    assert "Read-only" in run("open('/usr/adlm-test', 'w')").detail
    fill = "for i in range(30): open(f'{i}', 'wb').write(bytes(4 << 20))"
    assert "No space left" in run(fill).detail, "many small files are bounded too"


def test_a_program_cannot_dress_up_as_root(full):
    source = (
        "import ctypes, os\nlibc = ctypes.CDLL(None)\n"
        "assert os.getuid() != 0 and os.getpid() != 1\n"
        "assert libc.unshare(0x10000000) == -1, 'a user namespace of its own'\n"
        "assert libc.mount(b'x', b'/tmp', b'tmpfs', 0, b'') == -1\n"
        "assert libc.chroot(b'/tmp') == -1\n"
    )
    assert run(source).verdict == "passed"


def test_walls_that_cannot_be_had_are_not_left_out(full):
    """Inside the walls no further ones are permitted: there the program must not run at all."""
    inner = "import os, sys\nos.makedirs('adlm/eval')\n"
    for module in (sandbox, walls, errors, visible):
        place = "adlm/" + module.__file__.split("/adlm/")[-1]
        inner += f"open({place!r}, 'w').write({Path(module.__file__).read_text()!r})\n"
    inner += (
        "sys.path.insert(0, os.getcwd())\n"
        "from adlm.eval import sandbox as box\n"
        "done = box.run('print(12345)')\n"
        "print(done.verdict, done.detail, done.output)\n"
    )
    found = run(inner)
    assert found.verdict == "passed", found
    assert "unavailable" in found.output
    assert "unshare" in found.output
    assert "12345" not in found.output


HONEST = "def two():\n    return 2\n"
FORGED = """
import gc, os, sys
told = b'{"verdict": "passed", "detail": ""}'
for handle in range(3, 64):
    for said in (told, b"('value', 2)\\n" * 9):
        try:
            os.write(handle, said)
        except OSError:
            pass
"""
CHEATS = {
    "writes to every handle": FORGED + "os._exit(0)\n",
    "writes and goes on": FORGED + "def two():\n    return 3\n",
    "leaves": "def two():\n    import os\n    os._exit(0)\n",
    "exits": "def two():\n    raise SystemExit(0)\n",
    "is equal to all": "class A(int):\n    __eq__ = lambda *_: True\ndef two():\n    return A(3)\n",
    "looks for the test": """
import gc, sys
def two():
    frame = sys._getframe()
    while frame:
        for value in frame.f_globals.copy().values():
            if callable(value) and getattr(value, "__name__", "") == "check":
                value.__code__ = (lambda f: None).__code__
        assert not any("assert g() == 2" in str(v) for v in frame.f_locals.values())
        frame = frame.f_back
    return 3
""",
    "says that asserts are off": "import builtins\nbuiltins.AssertionError = None\n"
    "def two():\n    return 3\n",
}


def test_tests_see_the_answers_of_a_program(full):
    assert examined(TASKS[1], HONEST).verdict == "passed"
    assert examined(TASKS[1], HONEST.replace("2", "3")).verdict == "failed"
    assert "ZeroDivisionError" in examined(TASKS[1], "def two():\n    return 1 / 0\n").detail
    assert "name 'two' is not defined" in examined(TASKS[1], "x = 1").detail
    ended = examined(TASKS[1], CHEATS["leaves"])
    assert (ended.verdict, ended.detail) == ("raised", "ended by exit code 0 before its end")
    endless = examined(TASKS[1], "def two():\n    while True: pass\n", limits=QUICK)
    assert endless.verdict == "timeout"


@pytest.mark.parametrize("cheat", CHEATS)
@pytest.mark.parametrize("isolation", ["full", "limits"])
def test_a_verdict_cannot_be_forged(isolation, cheat):
    if isolation == "full" and sandbox.run("pass").verdict != "passed":
        pytest.skip("no walls here")
    found = examined(TASKS[1], CHEATS[cheat], isolation=isolation, limits=QUICK)
    assert found.verdict in ("failed", "raised", "timeout"), found


@pytest.mark.parametrize(
    "value",
    [
        "[1, (2.5, None)]", "{'a': {1, 2}, 'b': b'x'}", "float('inf')", "-float('inf')", "1 + 2j",
        "'\\n\\u2028\\ud800'", "10 ** 9999", "True", "set()",
    ],
)  # fmt: skip
def test_plain_values_go_there_and_back(value):
    test = f"def check(f):\n    value = {value}\n    assert f(value) == value\n"
    test += "    assert type(f(value)) is type(value)\n"
    same = "def same(x):\n    return x\n"
    found = examine(same, same, test, "same", isolation="limits")
    assert found.verdict == "passed", found


def test_kinds_of_dicts_and_lists_are_compared_as_before():
    source = "from collections import Counter, namedtuple\nP = namedtuple('P', 'a b')\n"
    source += "def f(x):\n    return Counter(x), P(1, 2), frozenset(x)\n"
    test = "def check(f):\n    assert f('aab') == ({'a': 2, 'b': 1}, (1, 2), {'a', 'b'})\n"
    assert examine(source, source, test, "f", isolation="limits").verdict == "passed"


def test_a_flood_of_output_is_cut(full):
    found = run("for _ in range(200000): print('x' * 100)")
    assert found.verdict == "passed", "it is read on, so the program is not held up"
    assert found.output == ("x" * 100 + "\n") * (QUICK.output // 101) + "x" * (QUICK.output % 101)


@pytest.mark.parametrize(
    ("n", "right", "k"), [(5, 2, 3), (6, 0, 2), (6, 5, 2), (4, 4, 1), (10, 1, 10)]
)
def test_pass_at_k_is_the_share_of_draws_with_a_right_one(n, right, k):
    draws = list(itertools.combinations([True] * right + [False] * (n - right), k))
    assert pass_at(n, right, k) == pytest.approx(sum(map(any, draws)) / len(draws))


def test_the_summary_has_an_error_over_tasks():
    rows = [["passed"] * 10, ["passed"] * 5 + ["timeout"] * 5, ["no_syntax"] * 10]
    found, shares = humaneval.pass_rates(rows), humaneval.shares(rows)
    assert set(found) == {"1", "10"}
    assert found["1"].mean == pytest.approx(0.5)
    assert found["1"].stderr == pytest.approx(np.std([1, 0.5, 0], ddof=1) / 3**0.5)
    assert found["10"].mean == pytest.approx(2 / 3)
    assert shares["timeout"] == pytest.approx(5 / 30)
    assert sum(shares.values()) == pytest.approx(1)
    assert humaneval.pass_rates([["raised"]])["1"].stderr is None


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("    return 1\n\ndef g():", "    return 1\n\n"),
        ("    return 1\nclass A:", "    return 1\n"),
        ("    print(1)\nprint(2)", "    print(1)\n"),
        ("    return 1\nif __name__ == 'x':", "    return 1\n"),
        ("    def g():\n        pass\n    if x: return", None),
        ("    return define\ndefault = 1", None),
    ],
)
def test_a_completion_ends_where_the_function_does(text, kept):
    assert truncate(text) == (text if kept is None else kept)


def test_a_completion_ends_at_the_end_of_the_text():
    vocab = byte_vocab()
    row = np.concatenate([*vocab.encode(["ab", "cd"]), [vocab.eos], *vocab.encode(["ef"])])
    given = Form(row, slice(2, len(row)), 0)
    assert completion(row, given, "complete", vocab) == "cd"
    assert completion(row, given, "infill", vocab) == "cdef"


def test_what_does_not_fit_is_cut_far_from_the_completion():
    vocab, task = byte_vocab(), TASKS[0]
    whole = form(task, "complete", 0, vocab, 100, 20)
    assert (len(whole.template), whole.hole, whole.cut) == (29, slice(9, 29), 0)
    tight = form(task, "complete", 0, vocab, 12, 20)
    assert (vocab.decode(tight.template[:6]), tight.hole, tight.cut) == (" f():\n", slice(6, 12), 3)
    seed = next(s for s in range(20) if around(task, "infill", s)[1] == "    x = 1")
    held = form(task, "infill", seed, vocab, 100, 1)
    assert vocab.decode(held.template[:9]) == task.prompt
    assert vocab.decode(held.template[held.hole.stop :]) == "\n    return x\n"
    assert (held.template[held.hole] == vocab.mask).all()
    assert (held.hole, held.cut) == (slice(9, 18), 0)
    tight = form(task, "infill", seed, vocab, 17, 1)
    assert (len(tight.template), tight.cut) == (17, 32 - 17)
    assert vocab.decode(tight.template[tight.hole.stop :]) == "\n   "
    assert form(task, "infill", seed, vocab, 8, 1) is None


def test_the_masked_line_follows_the_seed(shared):
    task = real(shared)[1]
    lines = {around(task, "infill", seed)[1] for seed in range(60)}
    assert lines == {line for line in task.canonical_solution.split("\n") if line.strip()}


@pytest.mark.parametrize("objective", ["mdlm", "ar"])
def test_written_then_run(full, trained, file, capsys, objective):
    """Not run without the word; then what was written is run and not written again."""
    run_dir = trained(objective)
    words = ["eval", "humaneval", run_dir, "--file", str(file), "--n", "10", "--tokens", "5"]
    assert main(words) == 0
    assert "--allow-code-execution runs them" in capsys.readouterr().out
    path = Path(run_dir) / "eval" / "humaneval.json"
    result = json.loads(path.read_text())
    assert (result["executed"], result["tasks_cut"], result["tokens_cut"]) == (False, 0, 0)
    assert result["pass_at"] == {}
    store = path.with_suffix(".jsonl")
    head, *records = [json.loads(line) for line in store.read_text().splitlines()]
    assert [len(r["completions"]) for r in records] == [10, 10]
    assert len(set(records[0]["completions"])) > 1
    records[0]["completions"] = (
        ["    return 1\n"] * 5 + ["    return 0\n", "    return\n"] + ["("] * 3
    )
    records[1]["completions"] = ["    return 2\n", "    while 1: pass\n", "    1 / 0\n"] + ["@"] * 7
    store.write_text("".join(json.dumps(r) + "\n" for r in [head, *records]))
    assert main([*words, "--allow-code-execution", "--timeout", "2"]) == 0
    assert "2 of 2 tasks are in" in capsys.readouterr().out
    result = json.loads(path.read_text())
    assert result["pass_at"]["1"]["mean"] == pytest.approx((0.5 + 0.1) / 2)
    assert result["pass_at"]["10"]["mean"] == 1
    assert result["parses"] == pytest.approx(10 / 20)
    shares = {"passed": 6, "failed": 2, "raised": 1, "timeout": 1, "no_syntax": 10, "no_room": 0}
    assert result["shares"] == pytest.approx({k: v / 20 for k, v in shares.items()})
    assert result["sandbox"]["network"] == "none"
    assert result["outcomes"]["T/1"][2] == ["raised", "ZeroDivisionError: division by zero"]


def test_a_killed_run_goes_on(trained, file):
    run_dir = trained()
    words = ["eval", "humaneval", run_dir, "--file", str(file), "--tokens", "5"]
    store = Path(run_dir) / "eval" / "humaneval.jsonl"
    assert main(words) == 0
    whole = [json.loads(line) for line in store.read_text().splitlines()]
    lines = store.read_text().splitlines(keepends=True)
    marked = json.dumps({**whole[1], "completions": ["mark"]}) + "\n"
    store.write_text(lines[0] + marked + lines[2][:20])
    assert main(words) == 0
    head, first, second = [json.loads(line) for line in store.read_text().splitlines()]
    assert (head, first["completions"]) == (whole[0], ["mark"])
    assert second["completions"] == whole[2]["completions"]
    assert main([*words, "--seed", "1"]) == 0
    assert "mark" not in store.read_text(), "other settings, other completions"


def test_holes_are_filled_and_what_has_no_room_counts(full, trained, file, capsys):
    run_dir = trained()
    long = replace(TASKS[0], task_id="T/2", canonical_solution="    return '" + 20 * "x" + "'\n")
    with file.open("a") as out:
        out.write(json.dumps(vars(long)) + "\n")
    words = ["eval", "humaneval", run_dir, "--mode", "infill", "--file", str(file), "--n", "2"]
    assert main([*words, "--allow_code_execution"]) == 0
    shown = capsys.readouterr().out
    assert "context is 16 tokens; 2 prompts were cut" in shown
    assert "1 holes did not fit at all and count as failed" in shown
    result = json.loads((Path(run_dir) / "eval" / "humaneval-infill.json").read_text())
    assert result["shares"]["no_room"] == pytest.approx(2 / 6)
    assert result["tasks_without_room"] == 1
    assert result["tasks_cut"] == 2
    known = [len(t.prompt + t.canonical_solution) for t in TASKS]  # a token a byte
    assert result["tokens_cut"] == sum(known) - 2 * 16


def test_the_limit_takes_the_first_tasks(trained, file):
    run_dir = trained()
    assert main(["eval", "humaneval", run_dir, "--file", str(file), "--limit", "1"]) == 0
    assert json.loads((Path(run_dir) / "eval" / "humaneval.json").read_text())["tasks"] == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "has no task"),
        ("{}\n", "line 1 has no text 'task_id'; a task has task_id, prompt"),
        ("\nnot json\n", "line 2 is not JSON"),
        ("[1]\n", "line 1 must be an object with task_id, prompt"),
        (json.dumps({**vars(TASKS[0]), "test": 3}), "line 1 has no text 'test'"),
        (json.dumps({**vars(TASKS[0]), "entry_point": "f); x("}), "must be a function's name"),
        (2 * (json.dumps(vars(TASKS[0])) + "\n"), "line 2: the task T/0 is there twice"),
    ],
)
def test_bad_tasks_are_one_sentence(tmp_path, capsys, content, says):
    (tmp_path / "t.jsonl").write_text(content)
    assert main(["eval", "humaneval", "nowhere", "--file", str(tmp_path / "t.jsonl")]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--file", "nowhere.jsonl"], "there is no file nowhere.jsonl"),
        (["--data.dir", "nowhere"], "the data folder nowhere does not exist"),
        (["--mode", "infill"], "a checkpoint of ar writes from left to right and cannot infill"),
        (["--mode", "backwards"], "mode must be one of"),
        (["--timeout", "0"], "--timeout must be above 0"),
        (["--limit", "-1"], "--limit must be 0"),
        (["--sampler", "ancestral"], "cannot be sampled by 'ancestral'"),
        (["--out", "x.jsonl"], "--out must be a .json file"),
        (
            ["--allow-code-execution", "--timeout", "0.001"],
            "programs cannot be run with --isolation full",
        ),
    ],
)
def test_bad_options_are_one_sentence(trained, file, capsys, words, says):
    run_dir = trained("ar")
    given = [] if words[0] in ("--file", "--data.dir") else ["--file", str(file)]
    assert main(["eval", "humaneval", run_dir, *given, *words]) == 2
    assert says in capsys.readouterr().err
    assert not (Path(run_dir) / "eval").exists(), "nothing half-written"
