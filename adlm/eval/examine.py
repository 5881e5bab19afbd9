"""Tests a program from outside it: the tests run in one sandbox, the program in another.

The program only answers calls of its function. It sees neither the tests nor the right answers nor
the handle of the verdict: it cannot pass but by answering right. Calls and answers are plain values
(numbers, text, bytes, lists, tuples, dicts and sets), handed over as Python literals.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from adlm.eval.sandbox import Limits, Outcome, run

GONE = "the program has ended"

PLAIN = """
import ast, builtins, os, sys
getattr(sys, "set_int_max_str_digits", id)(0)

class Endless(float):
    def __repr__(self):
        return "1e999" if self > 0 else "-1e999"

def plain(value):
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float) and value in (float("inf"), -float("inf")):
        return Endless(value)
    for kind in (int, float, complex, str, bytes):
        if isinstance(value, kind) and value == value:
            return kind(value)
    if isinstance(value, dict):
        return {plain(k): plain(v) for k, v in value.items()}
    for kind, like in ((list, list), (tuple, tuple), (set, set), (set, frozenset)):
        if isinstance(value, like):
            return kind(map(plain, value))
    raise TypeError(f"{type(value).__name__} is no plain value")

def opened(handle, mode):
    return os.fdopen(handle, mode, encoding="utf-8", errors="surrogatepass", newline="\\n")

def send(file, value):
    file.write(repr(value) + "\\n")
    file.flush()
"""

# the program: it answers until nobody asks
PROGRAM = """
def serve(source, name, asked, answers):
    space, failure = {"__name__": "__main__"}, None
    try:
        exec(compile(source, "program.py", "exec"), space)
        if name not in space:
            raise NameError(f"name '{name}' is not defined")
    except BaseException as error:
        failure = error
    for line in asked:
        try:
            if failure is not None:
                raise failure
            args, named = ast.literal_eval(line)
            said = ("value", plain(space[name](*args, **named)))
        except BaseException as error:
            kinds = [kind.__name__ for kind in type(error).__mro__]
            said = ("raised", kinds, str(error)[:300])
        send(answers, said)
"""

# the tests: the function that they call is far away
TESTS = """
def examine(known, test, name, asking, answers):
    def far(*args, **named):
        try:
            send(asking, plain((args, named)))
            line = answers.readline()
        except BrokenPipeError:
            line = ""
        if not line.endswith("\\n"):
            raise EOFError(GONE)
        how, *what = ast.literal_eval(line)
        if how == "value":
            return what[0]
        kinds = [getattr(builtins, str(kind), None) for kind in what[0]]
        kinds = [k for k in kinds if isinstance(k, type) and issubclass(k, BaseException)]
        raise kinds[0](str(what[1]))

    space = {"__name__": "__main__"}
    exec(compile(known, "known.py", "exec"), space)  # tests may use what stands beside
    space[name] = far
    exec(compile(f"{test}\\ncheck({name})\\n", "test.py", "exec"), space)
"""


def examine(
    source: str,
    known: str,
    test: str,
    name: str,
    limits: Limits = Limits(),
    isolation: str = "full",
) -> Outcome:
    """Run `check(name)` of a test on the function that a program defines.

    The test finds all else that it needs in `known`, a program that is right.

    Example:
        >>> known, test = "def two(): return 2", "def check(f): assert f() == 2"
        >>> examine("def two(): return 3", known, test, "two", isolation="limits").verdict
        'failed'
    """
    (asked, asking), (answers, answering) = os.pipe(), os.pipe()
    serve = f"serve({source!r}, {name!r}, opened({asked}, 'r'), opened({answering}, 'w'))"
    files = f"opened({asking}, 'w'), opened({answers}, 'r')"
    ask = f"examine({known!r}, {test!r}, {name!r}, {files})"
    with ThreadPoolExecutor(1) as pool:
        program = f"{PLAIN}{PROGRAM}\n{serve}"
        serving = pool.submit(run, program, limits, isolation, (asked, answering))
        tests = f"{PLAIN}GONE = {GONE!r}\n{TESTS}\n{ask}"
        found = run(tests, limits, isolation, (asking, answers))
        served = serving.result()
    if not found.detail.endswith(GONE):
        return found
    if served.verdict in ("timeout", "unavailable"):
        return served
    return replace(found, detail=served.detail or GONE, output=served.output)
