"""The API: existing clients get what they ask for, together or alone, from every kind of model."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from adlm import api, registry
from adlm.objectives.likelihood import evaluator
from adlm.samplers.choice import samplers_for
from tests.serve.conftest import model_of, running, served

PROMPT = "the law of "


def test_completions_are_the_texts_of_the_python_interface(server):
    body = {"model": "mdlm", "prompt": PROMPT, "max_tokens": 12, "n": 3, "seed": 5, "top_p": 0.8}
    texts = [c["text"] for c in server.get("/v1/completions", body)["choices"]]
    right = model_of("mdlm").generate(PROMPT, 3, max_new_tokens=12, seed=5, top_p=0.8)
    assert [PROMPT + text for text in texts] == right


@pytest.mark.parametrize("model", ["ar", "adlm"])
def test_requests_that_arrive_together_get_what_each_gets_alone(server, model, slowly):
    prompts = [PROMPT, "the sea of ", "peace and w", "free", "a"]
    bodies = [
        {"model": model, "prompt": p, "max_tokens": 10, "seed": s, "n": 2}
        for s, p in enumerate(prompts * 3)
    ]
    alone = [server.get("/v1/completions", b)["choices"] for b in bodies]
    slowly(0.02)
    with ThreadPoolExecutor(len(bodies)) as pool:
        together = list(pool.map(lambda b: server.get("/v1/completions", b)["choices"], bodies))
    assert together == alone


def test_rows_that_wait_are_written_on_one_canvas(server, monkeypatch):
    from adlm.serve import engine

    sizes, whole = [], engine.write_together
    monkeypatch.setattr(engine, "write_together", lambda w: (sizes.append(len(w)), whole(w)))
    with ThreadPoolExecutor(16) as pool:
        body = {"model": "adlm", "prompt": PROMPT, "max_tokens": 40}
        list(pool.map(lambda s: server.get("/v1/completions", {**body, "seed": s}), range(16)))
    assert sum(sizes) == 16
    assert max(sizes) > 1


@pytest.mark.parametrize("sampler", ["ancestral", "first-hitting", "remdm-cap"])
def test_prompts_of_different_lengths_are_one_batch_and_traced_as_alone(
    server, sampler, monkeypatch, slowly
):
    from adlm.serve import engine

    bodies = [
        {"model": "adlm", "text": f"{p}[MASK:9] a [MASK:2]", "seed": s, "sampler": sampler}
        for s, p in enumerate([PROMPT, "the sea", "peace and ", PROMPT])
    ]
    alone = [server.ask("/trace", b) for b in bodies]
    sizes, whole = [], engine.write_together
    monkeypatch.setattr(engine, "write_together", lambda w: (sizes.append(len(w)), whole(w)))
    slowly(0.02)
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda b: server.ask("/trace", b), bodies))
    assert together == alone
    assert max(sizes) > 1


def test_every_core_takes_its_part_of_what_waits(monkeypatch):
    import torch

    from adlm.serve import engine

    sizes, whole, texts = [], engine.write_together, 16
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    body = {"prompt": PROMPT, "max_tokens": 6, "steps": 6}
    with running(served("adlm")) as server:
        assert server.engine.workers == 2
        alone = [server.get("/v1/completions", {**body, "seed": s})["choices"] for s in range(12)]

        def write_when_all_have_come(works):
            sizes.append(len(works))
            until = time.monotonic() + 60
            while not all_have_come.wait(0.01) and time.monotonic() < until:
                if server.engine.busy == texts:
                    all_have_come.set()
            whole(works)

        all_have_come = threading.Event()
        monkeypatch.setattr(engine, "write_together", write_when_all_have_come)
        with ThreadPoolExecutor(13) as pool:
            first = pool.submit(server.get, "/v1/completions", {**body, "n": 4})
            together = list(
                pool.map(lambda s: server.get("/v1/completions", {**body, "seed": s}), range(12))
            )
            first.result()
        assert all_have_come.is_set()
        assert [t["choices"] for t in together] == alone
        assert sum(sizes) == 13
        assert 1 < max(sizes) <= texts // 2
        assert server.idle()


@pytest.mark.parametrize("objective", registry.names("objective"))
def test_every_objective_completes_infills_scores_and_traces(objective):
    model = model_of(objective)
    with running(served(objective)) as server:
        body = {"prompt": PROMPT, "max_tokens": 6, "steps": 4, "seed": 1}
        assert server.get("/v1/completions", body)["choices"][0]["finish_reason"]
        hole = {"text": "the [MASK:3] of [MASK] law", "seed": 1, "steps": 4}
        made = server.get("/infill", hole)
        assert made["texts"] == model.infill(hole["text"], seed=1, steps=4)
        assert len(made["holes"][0]) == 2
        scored = server.get("/nll", {"text": [PROMPT, "a"], "draws": 3})
        right = model.nll([PROMPT, "a"], draws=3)
        assert np.allclose([t["nats"] for t in scored["texts"]], right, rtol=1e-4)
        assert scored["exact"] == evaluator(model.config, model.vocab).exact
        status, told = server.ask("/trace", {"text": hole["text"], "seed": 1, "steps": 4})
        assert status == 200
        record = json.loads(told.strip().split("event: end\ndata: ")[1])
        found = api.settings(seed=1, steps=4)
        _, right_trace = model.record(served(objective)[objective].holes(hole["text"]), found)
        assert record["rows"] == json.loads(right_trace.to_json())["rows"]
        (card,) = server.get("/v1/models")["data"]
        assert [s["name"] for s in card["samplers"]] == samplers_for(model.config)


def test_tokens_scored_one_by_one_add_up_to_the_text(server):
    (text,) = server.get("/nll", {"model": "adlm", "text": PROMPT, "draws": 4})["texts"]
    assert "".join(t["text"] for t in text["tokens"][:-1]) == PROMPT
    total = sum(t["nats"] for t in text["tokens"]) + text["length_nats"]
    assert total == pytest.approx(text["nats"])


def test_a_suffix_is_kept_and_a_stop_ends_the_text(server):
    body = {"model": "mdlm", "prompt": "the ", "suffix": " law", "max_tokens": 5, "seed": 2}
    (choice,) = server.get("/v1/completions", body)["choices"]
    assert f"the {choice['text']} law" == model_of("mdlm").infill("the [MASK:5] law", seed=2)[0]
    whole = server.get("/v1/completions", {"model": "ar", "seed": 3, "max_tokens": 20})
    text = whole["choices"][0]["text"]
    stop = {"model": "ar", "seed": 3, "max_tokens": 20, "stop": text[8:10]}
    (cut,) = server.get("/v1/completions", stop)["choices"]
    assert cut["text"] == text[: text.find(text[8:10])]
    assert cut["finish_reason"] == "stop"


@pytest.mark.parametrize("cache", ["prefix", "dual", "delayed"])
def test_a_cache_writes_what_the_python_interface_writes(server, cache):
    body = {"model": "adlm", "text": "the [MASK:20] law", "seed": 3, "cache": cache}
    right = model_of("adlm").infill(body["text"], seed=3, cache=cache)
    assert server.get("/infill", body)["texts"] == right


@pytest.mark.parametrize("how", [{"goal": "fast"}, {"goal": "best"}, {"anchor_every": 3}])
def test_a_goal_writes_what_the_python_interface_writes(server, how):
    body = {"model": "adlm", "text": "the [MASK:20] law", "seed": 3, **how}
    right = model_of("adlm").infill(body["text"], seed=3, **how)
    assert server.get("/infill", body)["texts"] == right


def test_the_openai_client_reads_every_answer(server):
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=f"{server.address}/v1", api_key="none", max_retries=0)
    assert [m.id for m in client.models.list()] == ["mdlm", "adlm", "ar"]
    for model in ("ar", "adlm"):
        how = {"model": model, "prompt": PROMPT, "max_tokens": 8, "seed": 4, "temperature": 0.9}
        made = client.completions.create(**how, logprobs=1, n=2)
        type(made).model_validate(made.model_dump(), strict=True)
        assert made.object == "text_completion"
        assert [c.index for c in made.choices] == [0, 1]
        assert len(made.choices[0].logprobs.token_logprobs) == 8
        assert max(made.choices[0].logprobs.token_logprobs) <= 0
        assert made.usage.prompt_tokens == len(PROMPT)
        parts = list(client.completions.create(**how, stream=True))
        assert "".join(p.choices[0].text for p in parts) == made.choices[0].text
        assert parts[-1].choices[0].finish_reason == made.choices[0].finish_reason
        filled = client.completions.create(**how, suffix=" of the land")
        assert filled.choices[0].text
    with pytest.raises(openai.NotFoundError, match="there is no model 'gpt'"):
        client.completions.create(model="gpt", prompt="a")
    with pytest.raises(openai.BadRequestError, match="best_of is not served"):
        client.completions.create(model="ar", prompt="a", best_of=4)


def test_curl_gets_a_completion_and_a_stream(server):
    if not shutil.which("curl"):
        pytest.skip("needs curl")

    def curl(body: dict) -> str:
        words = ["curl", "-sN", f"{server.address}/v1/completions", "-d", json.dumps(body)]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    body = {"model": "ar", "prompt": PROMPT, "max_tokens": 5, "seed": 1}
    (choice,) = json.loads(curl(body))["choices"]
    *lines, end = curl({**body, "stream": True}).strip().split("\n\n")
    assert end == "data: [DONE]"
    told = [json.loads(line.removeprefix("data: "))["choices"][0]["text"] for line in lines]
    assert "".join(told) == choice["text"]
    assert len(told) > 2


def test_the_manual_names_every_field(server):
    from adlm.serve.messages import CompletionRequest, InfillRequest, NllRequest, TraceRequest

    page = server.ask("/docs")[1]
    for kind in (CompletionRequest, InfillRequest, NllRequest, TraceRequest):
        assert all(f"<code>{name}</code>" in page for name in kind.__struct_fields__)
