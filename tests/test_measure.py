"""What is measured of a machine stays within its budget, however slow the machine."""

from __future__ import annotations

import pytest

from adlm import device, doctor, measure
from adlm.commands.doctor import doctor as command


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
    assert "matrix products   1 GFLOP/s in fp32, 1 in bf16" in capsys.readouterr().out
