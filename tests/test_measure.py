"""What is measured of a machine stays within its budget, however slow the machine."""

from __future__ import annotations

import pytest

from adlm import device, doctor, measure
from adlm.budget import outline
from adlm.commands.doctor import doctor as command
from adlm.measure import TrainingSpeed, training_speed
from adlm.models.cost import training_flops
from adlm.recipes import recipe


@pytest.mark.parametrize("rate", [1e9, 1e11, 1e14])
def test_products_begin_small_and_stop_at_the_budget(rate, monkeypatch):
    tried = []

    def product_seconds(dtype, n, device, tries):
        tried.append(n)
        return 2 * n**3 / rate

    monkeypatch.setattr(device, "product_seconds", product_seconds)
    assert measure.matmul_flops("bf16", budget=0.3) == pytest.approx(rate)
    assert tried[0] == 128
    assert max(tried) == {1e9: 256, 1e11: 1024, 1e14: 2048}[rate]
    assert sum(4 * 2 * n**3 / rate for n in tried) <= 0.3


def test_a_machine_too_slow_for_any_product_is_measured_by_one(monkeypatch):
    monkeypatch.setattr(device, "product_seconds", lambda *given: 10.0)
    assert measure.matmul_flops("bf16", budget=0.3) == pytest.approx(2 * 128**3 / 10)


def test_a_real_product_has_a_rate():
    assert measure.matmul_flops("fp32", size=256, budget=0.05) > 1e7


def test_doctor_prints_lines_before_it_measures(monkeypatch, capsys):
    before = []

    def slow(*given, **more):
        before.append(capsys.readouterr().out)
        return 1e9

    monkeypatch.setattr(doctor, "matmul_flops", slow)
    command()
    assert "processor" in before[0]
    assert before[1] == "products in fp32  1 GFLOP/s\n"  # bf16 is not measured yet
    shown = capsys.readouterr().out
    assert "products in bf16  1 GFLOP/s\nprecision         auto = " in shown


@pytest.mark.parametrize("flops", [1e11, 1e12, 1e15])
def test_a_recipe_takes_as_long_as_its_real_step_says_however_fast_products_are(flops, monkeypatch):
    monkeypatch.setattr(measure, "matmul_flops", lambda *given, **more: flops)
    monkeypatch.setattr(measure, "step_rate", lambda *given, **more: 8000.0)
    here, mdlm = training_speed("cpu", "bf16"), recipe("laptop-mdlm")
    assert 1 / here.seconds(mdlm, 2048) == pytest.approx(8000)
    assert outline(mdlm, here)[3] == "4.3 minutes here"
    twice = here.seconds(recipe("laptop-bd3lm"), 2048) / here.seconds(mdlm, 2048)
    assert 1.6 < twice < 2.1  # it is shown every row twice
    wide = here.seconds(recipe("shipped-ar"), 8192) / here.seconds(mdlm, 2048)
    assert 1.9 < wide < training_flops(recipe("shipped-ar"), 8192) / training_flops(mdlm, 2048)


def test_no_step_is_faster_than_its_matrix_products(monkeypatch):
    monkeypatch.setattr(measure, "matmul_flops", lambda *given, **more: 1e9)
    monkeypatch.setattr(measure, "step_rate", lambda *given, **more: 1e9)
    assert training_speed("cpu", "bf16") == TrainingSpeed(flops=1e9, rest=0.0)


def test_a_real_step_is_slower_than_products_alone():
    here = training_speed("cpu", "fp32")
    mdlm = recipe("laptop-mdlm")
    assert here.seconds(mdlm, 2048) > training_flops(mdlm, 2048) / here.flops
