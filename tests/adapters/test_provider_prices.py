"""Prices: by name, dated, and to be overridden."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from agentdescent import evolve
from agentdescent.budget.tariff import Prices, Rate, Tariff, cost
from agentdescent.budget.usage import Usage
from agentdescent.errors import UsageError
from agentdescent_adapters.providers import Price, claude, load_prices, openai_compatible
from agentdescent_adapters.providers.prices import TABLE, price_of, prices_of

HERE = "http://127.0.0.1:1/v1"


def test_every_price_has_its_day() -> None:
    assert len(TABLE) > 10
    for name, price in TABLE.items():
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", price.as_of), name
        assert price.cached is not None
        assert 0 < price.cached < price.prompt < price.completion


def test_a_dollar_per_million_is_a_million_picodollars() -> None:
    assert Price(2.5, 10, 1.25).per_token() == Prices(2_500_000, 10_000_000, 1_250_000)
    assert Price(0.075, 0.3).per_token() == Prices(75_000, 300_000, None)
    assert Price(0.0000001, 0).per_token() == Prices(1, 0)  # rounded up: a worst case stays one
    assert (
        cost(Price(1, 2, 0.1).per_token(), Usage(prompt=1_000_000, cached=500_000, completion=100_000)) == 750_000_000
    )


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("gpt-4o-mini", "gpt-4o-mini"),
        ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        ("claude-haiku-4-5-20251001", "claude-haiku-4-5"),
        ("openai/gpt-4.1", "gpt-4.1"),
        ("gpt-4o-mini-search-preview", None),
        ("SmolLM2-135M", None),
        ("", None),
    ],
)
def test_names(name: str, known: str | None) -> None:
    assert price_of(name, TABLE) == (None if known is None else TABLE[known])


def test_the_callers_own_come_first() -> None:
    own = {"gpt-4o": Price(1, 2), "mine": Price(3, 4)}
    assert prices_of("gpt-4o", own) == Prices(1_000_000, 2_000_000)
    assert prices_of("mine", own) == Prices(3_000_000, 4_000_000)
    assert prices_of("gpt-4o-mini", own) == TABLE["gpt-4o-mini"].per_token()
    assert prices_of("gpt-4o", Price(5, 6)) == Prices(5_000_000, 6_000_000)
    assert prices_of("gpt-4o", Prices(7, 8)) == Prices(7, 8)
    assert prices_of("unheard-of", None) is None


def test_terms_have_them() -> None:
    assert openai_compatible("mine", base_url=HERE).terms.prices is None
    assert openai_compatible("mine", base_url=HERE, prices=Price(1, 2)).terms.prices == Prices(1_000_000, 2_000_000)
    assert claude("claude-haiku-4-5", api_key="k").terms.prices == TABLE["claude-haiku-4-5"].per_token()


@pytest.mark.parametrize("price", [Price(-1, 2), Price(1, float("nan")), Price(1, 2, float("inf"))])
def test_what_is_no_price_is_said(price: Price) -> None:
    with pytest.raises(UsageError, match="dollars per million"):
        openai_compatible("mine", base_url=HERE, prices=price)


def test_something_else_as_a_price_is_said() -> None:
    table: Any = {"mine": 5}
    with pytest.raises(UsageError, match=r"mine.*Price"):
        openai_compatible("mine", base_url=HERE, prices=table)


def test_a_file_of_prices(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text('["gpt-4o"]\nprompt = 1\ncompletion = 2.5\ncached = 0.5\nas_of = "2026-11-30"\n', encoding="utf-8")
    assert load_prices(file) == {"gpt-4o": Price(1, 2.5, 0.5, "2026-11-30")}
    for text in ("x", "[m]\nprompt = 1\n", "[m]\nprompt = 1\ncompletion = 2\noutput = 3\n", "m = 1"):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(UsageError, match=r"prices\.toml"):
            load_prices(file)
    with pytest.raises(UsageError, match=r"none\.toml"):
        load_prices(tmp_path / "none.toml")


def test_a_cap_in_dollars_needs_a_price() -> None:
    rate = Rate(strict=True, ceiling=10, prices=openai_compatible("mine", base_url=HERE).terms.prices)
    with pytest.raises(UsageError, match=r"max_cost is set, but tariff\.solve has no prices for .*: give them"):
        evolve(
            [{"id": str(n), "prompt": "p"} for n in range(6)],
            lambda task, output: 0.0,
            run=lambda rendered, task: "",
            propose=lambda rendered, task, output, score: None,
            tariff=Tariff(rate, rate),
            max_cost=1.0,
        )


def test_an_older_model_that_costs_more_has_no_price_by_its_name() -> None:
    assert price_of("gpt-4o-2024-08-06", TABLE) == TABLE["gpt-4o"]
    assert price_of("openai/gpt-4o-2024-05-13", TABLE) is None
    own = {"gpt-4o-2024-05-13": Price(5.0, 15.0)}
    assert price_of("openai/gpt-4o-2024-05-13", own) == Price(5.0, 15.0)
