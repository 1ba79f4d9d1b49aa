"""How deep a search by examples goes: a sixteenth in every run of the tests, all of it in `make properties`."""

from hypothesis import settings

DEEP = "deep"
"""The profile under which nothing is left out: `pytest --hypothesis-profile=deep`."""
_SHARE = 16


def examples(most: int) -> int:
    """So many at most, or a share of them where this is no deep run."""
    return most if settings.get_current_profile_name() == DEEP else max(most // _SHARE, 1)
