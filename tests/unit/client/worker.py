"""A worker process of many clients: `python -m tests.unit.client.worker SOCKET KEY CLIENTS TIMES REQUEST…`.

It prints a JSON object: request to the different answers that its clients got, and the errors by class.
"""

import asyncio
import json
import sys
from collections import Counter
from typing import Any

from jazz_select.client import RemoteSelector
from jazz_select.errors import JazzSelectError
from jazz_select.selector.result import FlowSelectionResult


def said(result: FlowSelectionResult) -> dict[str, Any]:
    """What of an answer does not depend on the moment: nor on the engine's last digits."""
    decision = result.decision
    return {
        "names": result.names,
        "prompt": result.combined_prompt,
        "decided": [decision.tier, decision.reason],
        "candidates": [[each.flow_name, round(each.score, 3), dict(each.ranks)] for each in decision.candidates],
    }


async def answers(path: str, key: str, clients: int, times: int, requests: list[str]) -> dict[str, Any]:
    """Each client asks all of them so many times, beginning with another one."""
    found: dict[str, list[Any]] = {request: [] for request in requests}
    errors = Counter[str]()

    async def one(number: int) -> None:
        async with RemoteSelector("http://localhost", key=key, uds=path) as remote:
            for turn in range(times * len(requests)):
                request = requests[(number + turn) % len(requests)]
                try:
                    answer = said(await remote.select(request))
                except JazzSelectError as error:
                    errors[type(error).__name__] += 1
                    continue
                if answer not in found[request]:
                    found[request].append(answer)

    await asyncio.gather(*(one(number) for number in range(clients)))
    return {"found": found, "errors": dict(errors)}


if __name__ == "__main__":
    socket, own, count, often, *asked = sys.argv[1:]
    print(json.dumps(asyncio.run(answers(socket, own, int(count), int(often), asked))))  # noqa: T201 - a program
