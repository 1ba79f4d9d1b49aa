"""How deep a search goes in `make test`: a sixteenth of its examples, a quarter of its walks by chance.

`.ci/run` takes all walks, `make properties` all examples too.
"""

from hypothesis import settings

CI = "ci"
"""The profile under which no walk is left out: `pytest --hypothesis-profile=ci`."""
DEEP = "deep"
"""The profile under which nothing is left out."""
_SHARE = 16
_SHARE_OF_WALKS = 4


def examples(most: int) -> int:
    """So many at most, or a share of them where this is no deep run."""
    return most if settings.get_current_profile_name() == DEEP else max(most // _SHARE, 1)


def walks(most: int) -> int:
    """So many walks by chance at most, or a share of them in `make test`."""
    return most if settings.get_current_profile_name() in {CI, DEEP} else max(most // _SHARE_OF_WALKS, 1)
