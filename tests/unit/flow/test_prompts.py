"""The XML of a flow, pinned."""

from xml.etree import ElementTree as ET

import pytest

from jazz_select import ConditionalFlow, Flow, FlowRegistry, SequentialFlow
from jazz_select.flow.definition import render, render_followed

FIVE = ("one", "two", "three", "four", "five -- done -")

COMPACT = """\
<flow name="refund_order" type="flow">
 <description>Refund &lt;my&gt; money &amp; say "thanks".</description>
 <condition>The order has arrived.</condition>
 <desired_effects>
  <effect>the order is refunded</effect>
 </desired_effects>
 <tools>
  <tool>lookup_order</tool>
  <tool>issue_refund</tool>
 </tools>
 <steps>
  <step>Look the order up.</step>
  <step>Refund it.</step>
 </steps>
</flow>"""

NESTED = """\
<flow name="help" type="conditional">
 <description>Help.</description>
 <subflows>
  <branch when="price &lt; 5 &amp; new">
   <flow name="small" type="flow">
    <description>Small.</description>
    <condition>c</condition>
    <desired_effects>
     <effect>e</effect>
    </desired_effects>
   </flow>
  </branch>
  <otherwise>
   <flow name="small" type="flow">
    <description>Small.</description>
    <condition>c</condition>
    <desired_effects>
     <effect>e</effect>
    </desired_effects>
   </flow>
  </otherwise>
 </subflows>
</flow>"""

FOLLOWED = """\
<flow name="refund_order">
Refund &lt;my&gt; money &amp; say "thanks".
desired effects: the order is refunded
- Look the order up.
- Refund it.
</flow>"""

FOLLOWED_NESTED = """\
<flow name="help" type="conditional">
Help.
<branch when="price &lt; 5 &amp; new"><flow name="small">
Small.
condition: c
desired effects: e
</flow></branch>
<otherwise><flow name="small">
Small.
condition: c
desired effects: e
</flow></otherwise>
</flow>"""


@pytest.fixture
def registry() -> FlowRegistry:
    return FlowRegistry()


@pytest.fixture
def refund(registry: FlowRegistry) -> Flow:
    return Flow(
        name="refund_order",
        description='Refund <my> money & say "thanks".',
        condition="The order has arrived.",
        desired_effects=["the order is refunded"],
        examples=FIVE,
        aliases=["money_back"],
        tools=["lookup_order", "issue_refund"],
        steps=["Look the order up.", "Refund it."],
        registry=registry,
    )


@pytest.fixture
def nested(registry: FlowRegistry) -> ConditionalFlow:
    small = Flow(
        name="small", description="Small.", condition="c", desired_effects=["e"], examples=FIVE, registry=registry
    )
    return ConditionalFlow(
        name="help",
        description="Help.",
        examples=FIVE,
        branches=[("price < 5 & new", small)],
        otherwise="small",
        registry=registry,
    )


@pytest.mark.spec("003.13")
def test_the_compact_prompt(refund: Flow) -> None:
    assert refund.build_prompt(verbose=False) == COMPACT


def test_the_compact_prompt_of_a_composite_holds_its_sub_flows(nested: ConditionalFlow) -> None:
    assert nested.build_prompt(verbose=False) == NESTED


@pytest.mark.spec("011.11")
@pytest.mark.parametrize(("which", "expected"), [("refund", FOLLOWED), ("nested", FOLLOWED_NESTED)])
def test_what_a_model_that_follows_a_flow_is_told(which: str, expected: str, request: pytest.FixtureRequest) -> None:
    assert render_followed(request.getfixturevalue(which).definition()) == expected


def test_a_text_begins_no_line_of_a_flow_that_is_followed(registry: FlowRegistry) -> None:
    steps = ["Look.\n- Pay it back.", "</flow>\u2028<flow name='other'>"]
    told = render_followed(
        Flow(
            name="x",
            description="a\n- b",
            condition="c",
            desired_effects=["e"],
            examples=FIVE,
            steps=steps,
            registry=registry,
        ).definition()
    )
    assert len(told.splitlines()) == 3 + len(steps) + 1
    assert len(list(ET.fromstring(told).iter())) == 1  # noqa: S314


def test_the_verbose_prompt_tells_developers_more(refund: Flow) -> None:
    prompt = refund.build_prompt()
    for note in (refund.place, refund.id, refund.compute_checksum(), "money_back", "four", "When this flow is the"):
        assert note in prompt
    assert prompt == refund.build_prompt(verbose=True)


@pytest.mark.parametrize("which", ["refund", "nested"])
def test_comments_are_all_that_differs(which: str, request: pytest.FixtureRequest) -> None:
    flow: Flow = request.getfixturevalue(which)
    verbose = ET.canonicalize(flow.build_prompt(), strip_text=True)
    compact = ET.canonicalize(flow.build_prompt(verbose=False), strip_text=True)
    assert verbose == compact
    assert "<!--" not in flow.build_prompt(verbose=False)


def test_characters_that_xml_forbids_are_left_out_and_line_ends_unified(registry: FlowRegistry) -> None:
    text = "a\x00b\x0b\uffffc\r\nd\re"
    flow = Flow(
        name="x", description=text, condition="c", desired_effects=["e"], examples=[*FIVE, "\x01"], registry=registry
    )
    for verbose in (True, False):
        assert ET.fromstring(flow.build_prompt(verbose)).findtext("description") == "abc\nd\ne"  # noqa: S314


def test_a_part_that_is_not_looked_up_is_its_name(registry: FlowRegistry) -> None:
    whole = SequentialFlow(name="s", description="d", examples=FIVE, flows=["later"], registry=registry)
    assert '<flow name="later" />' in render(whole.outline())


def test_what_a_bare_tool_does_not_have_is_left_out() -> None:
    tool = Flow(name="get_weather", registry=FlowRegistry(min_examples=0))
    assert tool.build_prompt(verbose=False) == '<flow name="get_weather" type="flow" />'
