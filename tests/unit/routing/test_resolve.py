"""Which tool a name means, and what never runs on a guess."""

import pytest

from benchmarks.names import Case, read
from jazz_select.routing.names.resolution import NO_TOOL, NameIndex, resolve
from jazz_select.routing.tools.tool import Tool
from tests.unit.routing.listed import listed, needing

TOOLS, CASES = read()
WEB = Tool(
    name="web_search",
    id="node-7",
    provider="brave",
    operation="search",
    capabilities=("web.search", "internet.search", "lookup"),
    input_schema=needing("query"),
)
MANY = [letter * 3 for letter in "abcdefghijklmnopqrstuvwxyz"]


@pytest.mark.spec("004.9")
@pytest.mark.parametrize(
    ("name", "stage"),
    [
        pytest.param("web_search", "exact", id="as it is"),
        pytest.param("node-7", "exact", id="by its id"),
        pytest.param("webSearch", "normalised", id="camel case"),
        pytest.param("web.search", "normalised", id="dot"),
        pytest.param("web-Search", "normalised", id="dash"),
        pytest.param("web:search", "normalised", id="colon"),
        pytest.param("web/search", "normalised", id="slash"),
        pytest.param("web\u200b_search\ufeff", "normalised", id="characters nobody sees"),
        pytest.param("\uff57eb_search", "normalised", id="full width"),
        pytest.param(f"web{'_' * 191}search", "normalised", id="as long as may be"),
        pytest.param("internet_search", "capability", id="capability"),
        pytest.param("lookups", "capability", id="capability of one word"),
        pytest.param("search_internet", "capability", id="capability in another order"),
        pytest.param("web_serach", "capability", id="two letters swapped"),
        pytest.param("web_searches", "capability", id="plural"),
        pytest.param("brave_web_search", "capability", id="with its provider"),
        pytest.param("functions.web_search", "capability", id="wrapped"),
        pytest.param("web_search_tool", "capability", id="wrapped behind"),
        pytest.param("web_search_for_query", "capability", id="with an input"),
        pytest.param("web", "substring", id="a part of it"),
    ],
)
def test_the_stages(name: str, stage: str) -> None:
    found = resolve(name, [WEB, *listed("calendar.list_events", "send_mail")])
    assert (found.tool, found.stage) == (WEB, stage)
    assert found.error() == {}
    assert found.reason
    assert (0.5 if stage == "substring" else 0.8) <= found.score <= 1


@pytest.mark.spec("004.9")
def test_nothing_like_it_is_a_structured_error() -> None:
    error = resolve("book_flight", listed("web_search", "calendar")).error()
    assert list(error) == ["error", "connected_tools", "requested", "reason", "suggestions"]
    assert error["error"] == NO_TOOL == "Agent could not determine a matching tool."
    assert error["connected_tools"] == ["web_search", "calendar"]
    assert error["requested"] == "book_flight"
    assert error["suggestions"] == []
    assert resolve("book_flight", listed("web_search", "flight_status")).suggestions == ("flight_status",)


@pytest.mark.parametrize(
    ("name", "tool", "reason"),
    [
        (f"web{'_' * 192}search", "web_search", "the name is longer than 200 characters"),
        ("do_not_send_mail", "send_mail", "'not' is no part of send_mail"),
        (
            "turn_on_living_room_lights",
            "turn_off_living_room_lights",
            "turn_off_living_room_lights says 'off' where 'on' was asked for",
        ),
    ],
    ids=["too long", "denied", "the opposite"],
)
def test_it_is_said_why_a_tool_is_not_meant(name: str, tool: str, reason: str) -> None:
    assert resolve(name, listed(tool)).reason == reason


@pytest.mark.spec("004.3")
@pytest.mark.parametrize("name", ["web_search", "webSearch", "search_the_web", "list_event", "web"])
def test_the_order_of_the_tools_does_not_matter(name: str) -> None:
    tools = [WEB, *listed("calendar.list_events", "send_mail", "read_file")]
    found = [resolve(name, order).tool for order in (tools, tools[::-1], tools[2:] + tools[:2])]
    assert {tool.name for tool in found if tool} == {"calendar.list_events" if name == "list_event" else "web_search"}
    assert None not in found


@pytest.mark.parametrize(
    ("name", "tools", "meant"),
    [
        pytest.param("send_email", ["gmail.send_email", "outlook.send_email"], 2, id="two providers"),
        pytest.param("web-search", ["web_search", "webSearch"], 2, id="two spellings"),
        pytest.param("-".join(MANY), ["_".join(MANY), ".".join(MANY)], 2, id="two spellings of many words"),
        pytest.param("calendar", ["calendar.list", "calendar.find"], 2, id="a part of two"),
        pytest.param("get_thing", [f"get_thing_{each}" for each in MANY], 20, id="many"),
    ],
)
def test_what_may_mean_several_runs_none_and_lists_them(name: str, tools: list[str], meant: int) -> None:
    found = resolve(name, listed(*tools))
    assert found.tool is None
    assert found.suggestions == tuple(tools[:meant])
    assert found.reason == f"it may mean any of {len(tools)} tools"


@pytest.mark.parametrize("form", ["{}", "functions.{}", "{}s", "{}_tool"])
def test_no_tool_stands_in_for_one_that_is_not_connected(form: str) -> None:
    def ran(left_out: Tool) -> Tool | None:
        return NameIndex([tool for tool in TOOLS if tool is not left_out]).resolve(form.format(left_out.name)).tool

    assert {tool.name: found.name for tool in TOOLS if (found := ran(tool))} == {}


def test_two_tools_of_one_name_are_ambiguous() -> None:
    found = resolve("web_search", listed("web_search", "web_search"))
    assert found.tool is None
    assert found.suggestions == ("web_search", "web_search")


def test_a_name_goes_before_another_tools_id() -> None:
    tools = [Tool(name="first", id="second"), Tool(name="second", id="third")]
    assert resolve("second", tools).tool is tools[1]


@pytest.mark.parametrize("name", ["delete_files", "file_delete", "functions.delete_file", "delete", "delete_the_file"])
def test_a_guess_never_runs_what_destroys(name: str) -> None:
    found = resolve(name, listed("delete_file!", "web_search"))
    assert found.tool is None
    assert found.suggestions[0] == "delete_file"
    assert "destroys" in found.reason


@pytest.mark.spec("005.9")
@pytest.mark.parametrize(
    ("name", "runs"),
    [
        ("delete_file", True),
        ("deleteFile", False),
        ("DELETE-FILE", False),
        ("!delete_file", False),
        ("delete_file\u200b", False),
    ],
)
def test_what_destroys_runs_by_its_exact_name_alone(name: str, runs: bool) -> None:
    found = resolve(name, listed("delete_file!"))
    assert (found.tool is not None) is runs
    assert runs or (found.suggestions == ("delete_file",) and "exact name" in found.reason)


@pytest.mark.spec("005.9")
@pytest.mark.parametrize(
    ("asked", "other"),
    [
        pytest.param("node_1_1", "node_11", id="digits that a separator parts"),
        pytest.param("กา", "กี", id="Thai vowel signs"),
        pytest.param("की", "का", id="Hindi vowel signs"),
        pytest.param("cafe\u0301_1", "cafe_1", id="an accent of its own"),
    ],
)
def test_no_letter_mark_or_digit_is_lost(asked: str, other: str) -> None:
    assert resolve(asked, listed(other)).stage != "normalised"
    assert resolve(asked, listed(asked, other)).stage == "exact"


@pytest.mark.spec("005.9")
@pytest.mark.parametrize(
    ("asked", "other"),
    [
        pytest.param("s\u0435nd_mail", "send_mail", id="Cyrillic e"),
        pytest.param("\u0421all_\u041cum", "Call_Mum", id="Cyrillic capitals"),
        pytest.param("send_t\u03bf_all", "send_to_all", id="Greek o"),
        pytest.param("l\u0131st_files", "list_files", id="an i without its dot"),
        pytest.param("cafe\u0301_list", "cafe_list", id="an accent"),
        pytest.param("a\u0323dd_user", "add_user", id="a dot below"),
        pytest.param("กี_list", "ก_list", id="a Thai vowel sign"),
    ],
)
def test_names_that_only_look_alike_are_ambiguous_and_not_equal(asked: str, other: str) -> None:
    alone = resolve(asked, listed(other))
    assert (alone.tool, alone.suggestions[0]) == (None, other)
    assert "looks like" in alone.reason
    both = listed(asked, other)
    assert [resolve(each.name, both).tool for each in both] == both
    loose = resolve(other.upper().replace("_", "-"), both)
    assert (loose.tool, set(loose.suggestions)) == (None, {both[0].name, other})
    assert loose.reason == "it may mean any of 2 tools"
    assert resolve(other.upper().replace("_", "-"), listed(other)).tool is not None


def test_other_scripts_are_no_disguise() -> None:
    for name in ("найти_файл", "εύρεση_αρχείου", "ファイル_検索", "größe_ändern"):
        assert resolve(name.replace("_", "-"), listed(name, "find_file")).stage == "normalised"


OPPOSITES = [
    ("lock_account", "unlock_account"),
    ("create_event", "delete_event"),
    ("enable_alarm", "disable_alarm"),
    ("start_instance", "stop_instance"),
    ("start_instance", "restart_instance"),
    ("add_to_playlist", "remove_from_playlist"),
    ("open_garage_door", "close_garage_door"),
    ("subscribe_newsletter", "unsubscribe_newsletter"),
    ("activate_user_account", "deactivate_user_account"),
    ("turn_on_living_room_lights", "turn_off_living_room_lights"),
    ("install_package", "uninstall_package"),
    ("publish_the_next_blog_post", "unpublish_the_next_blog_post"),
    ("convert_pdf_to_word", "convert_word_to_pdf"),
    ("copy_local_files_to_remote", "copy_remote_files_to_local"),
    ("set_user_home_address_city", "get_user_home_address_city"),
    ("block_the_credit_card", "lock_the_credit_card"),
    ("update_calendar_event_with_attendees", "create_calendar_event_with_attendees"),
]


@pytest.mark.parametrize("form", ["{}", "functions.{}", "{}s", "home_{}"])
def test_a_tool_never_runs_for_its_opposite(form: str) -> None:
    pairs = [*OPPOSITES, *((b, a) for a, b in OPPOSITES)]
    asked = {(form.format(one), other): resolve(form.format(one), listed(other, "web_search")) for one, other in pairs}
    assert len(asked) == 2 * len(OPPOSITES)
    assert [pair for pair, found in asked.items() if found.tool is not None] == []


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        pytest.param("do_not_send_mail", "send_mail", id="denied"),
        pytest.param("send_mail_and_delete_file", "send_mail", id="two at once"),
        pytest.param("yahoo.send_message", "gmail.send_message", id="another provider"),
        pytest.param("create_issue", "create_issue_comment", id="more than was asked"),
        pytest.param("create_issue_comment", "create_issue", id="less than was asked"),
        pytest.param("account", "lock_account", id="an act that nobody named"),
        pytest.param("get_contact", "get_contract", id="another word, not a slip"),
        pytest.param("pay_song", "play_song", id="another verb, not a slip"),
        pytest.param("list_users_v1", "list_users_v2", id="another version"),
        pytest.param("sеnd_message", "send_message", id="a letter of another alphabet"),
        pytest.param("\u202egam_dnes", "send_mag", id="written backwards"),
        pytest.param("it", "list_items", id="too short"),
        pytest.param("list_tools", "list_items", id="a word that wraps names is the noun here"),
        pytest.param("list_services", "list_items", id="a technical noun"),
        pytest.param("call_customer", "get_customer", id="a verb that wraps names is the verb here"),
        pytest.param("run_report", "get_report", id="another verb that wraps names"),
        pytest.param("get_customer_service", "get_customer", id="a noun behind it"),
        pytest.param("refund", "check_refund_eligibility", id="an act, and a tool that only looks"),
        pytest.param("ecode_text", "encode_text", id="a slip of a word as well as of its opposite"),
        pytest.param("show_kalendr", "show_kalendár", id="a slip, and a letter that nobody asked for"),
    ],
)
def test_close_is_not_enough(name: str, tool: str) -> None:
    assert resolve(name, listed(tool, "web_search")).tool is None


HOSTILE: list[object] = [
    None,
    True,
    10**5_000,
    float("nan"),
    b"web_search",
    [],
    {"name": "web_search"},
    "",
    " ",
    "\x00",
    "\ud800",
    "___",
    "web_search\n" * 100_000,
    "get " * 250_000,
    "a_" * 99,
    "\u0301" * 150,
    "\ufdfa" * 200,
    "İ" * 200,
]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_whatever_a_model_calls_a_tool_is_an_answer(name: object) -> None:
    index = NameIndex(TOOLS)
    found = index.resolve(name)
    assert found.tool is None
    assert len(found.requested) <= 201
    assert found.error()["connected_tools"] == [tool.name for tool in TOOLS]


def test_no_tools_at_all() -> None:
    assert resolve("web_search", listed()).reason == "no tool is connected"


def outcome(case: Case) -> str | None:
    tools = [tool for tool in TOOLS if tool.name not in case.without]
    found = resolve(case.ask, tools).tool
    return found.name if found else None


@pytest.mark.parametrize("kind", sorted({case.kind for case in CASES if case.meant is None}))
def test_no_name_on_the_list_runs_what_was_not_meant(kind: str) -> None:
    asked = {case.ask: outcome(case) for case in CASES if case.meant is None and case.kind == kind}
    assert {ask: ran for ask, ran in asked.items() if ran is not None} == {}


def test_most_of_the_names_on_the_list_are_found_and_none_is_taken_for_another() -> None:
    meant = [case for case in CASES if case.meant]
    found = [outcome(case) for case in meant]
    assert [case.ask for case, got in zip(meant, found, strict=True) if got not in {None, case.meant}] == []
    destructive = {tool.name for tool in TOOLS if tool.destructive}
    held = [got for case, got in zip(meant, found, strict=True) if case.held and case.meant not in destructive]
    assert len([got for got in held if got]) >= 0.95 * len(held)


def test_what_may_not_run_is_suggested() -> None:
    cases = [case for case in CASES if case.suggest]
    assert cases
    assert [case.ask for case in cases if case.suggest not in resolve(case.ask, TOOLS).suggestions] == []
