"""A service that learns from its log: at each reload, for all who ask, and not from what one client makes up."""

from pathlib import Path

import pytest

from jazz_select.outcomes import OutcomeLog
from jazz_select.service.agents import load_agents
from jazz_select.settings import Settings
from jazz_select.testing import ScriptedModel
from jazz_select.values import Candidate, Decision, Reason, Tier, flow_id
from tests.unit.service.served import KEY, OTHER_KEY, Shop, catalogue, memory, service

NAMES = ("refund_order", "track_order", "cancel_order")
WORDS = ("my money back for the", "where is the", "cancel the")
PROBES = [f"where is the {what} number {number}" for what in ("rug", "lamp") for number in range(4)]


def chosen_by_models(log: OutcomeLog, count: int) -> None:
    for number in range(count):
        name, words = NAMES[number % 3], WORDS[number % 3]
        offered = Candidate(flow_id=flow_id(name), flow_name=name, confidence=0.6)
        decision = Decision(tier=Tier.GUIDED, reason=Reason.LLM, model="m", candidates=(offered,), attempts=1)
        log.record(f"{words} order {number}", decision, agent_id="shop", chosen=[name])
    log.flush()


@pytest.mark.spec("016.3", "016.4")
async def test_a_service_learns_from_its_log_and_not_from_one_client(tmp_path: Path) -> None:
    log = OutcomeLog(tmp_path / "outcomes.db")
    chosen_by_models(log, 120)
    model = ScriptedModel(f'["{flow_id("track_order")}"]', repeat=True)
    async with memory() as index:
        running = catalogue(index, Shop().sources, model=model, evidence=log.path)
        running.log = log
        async with service(running, keys=[KEY], more_keys={OTHER_KEY: "shop"}) as up:
            assert any(note.startswith("learned from 120 logged requests") for note in running.live.report.notes)
            mine = {"authorization": f"Bearer {KEY}"}
            for number in range(12):
                asked = await up.post("/v1/select", {"request": f"{PROBES[number % 8]} {number}"}, **mine)
                said = {"selection": asked.json()["logged"], "right": ["cancel_order"]}
                assert (await up.post("/v1/feedback", said, **mine)).status_code == 200
            await running.reload()
            found = await running.memory.recall_many(PROBES, "shop")
            assert [each[0]["flow_name"] for each in found] == ["track_order"] * 8
            text = (await up.client.get("/metrics", headers=mine)).text
            assert 'jazz_select_audit_promise{agent="shop"} 0.01' in text
            assert 'jazz_select_audit_threshold{agent="shop"} 0.0' in text
            assert 'jazz_select_audit_raised_flows{agent="shop"} 0.0' in text
            assert 'jazz_select_audit_suspected_flows{agent="shop"} 0.0' in text


def test_agents_name_the_log_that_they_learn_from(tmp_path: Path) -> None:
    file = tmp_path / "agents.yaml"
    entry = "{flows: flows, log: outcomes.db, evidence: outcomes.db}"
    file.write_text(f"agents:\n  shop: {entry}\n  bare: {{flows: flows}}\n")
    shop, bare = load_agents(file, Settings(evidence=Path("elsewhere.db")))
    assert (shop.settings.evidence, shop.log) == (tmp_path / "outcomes.db",) * 2
    assert bare.settings.evidence is None, "nothing is learned that its entry does not switch on"
