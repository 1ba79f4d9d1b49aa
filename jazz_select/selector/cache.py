"""Prompts of flows, built once per definition."""

from collections.abc import Mapping

from jazz_select.flow.base import BaseFlow


class PromptCache:
    """The compact prompts of flows by id; a flow whose checksum changed is built anew, one that is gone is dropped."""

    def __init__(self, registry: Mapping[str, BaseFlow]) -> None:
        self._registry = registry
        self._built: dict[str, tuple[str, str]] = {}

    def prompt(self, flow: BaseFlow) -> str:
        """`flow.build_prompt(verbose=False)`, built only if this definition was not built before."""
        checksum = flow.compute_checksum()
        known = self._built.get(flow.id)
        if known is not None and known[0] == checksum:
            return known[1]
        prompt = flow.build_prompt(verbose=False)
        self._built[flow.id] = (checksum, prompt)
        if len(self._built) > len(self._registry):
            self._built = {flow_id: built for flow_id, built in self._built.items() if flow_id in self._registry}
        return prompt

    def __len__(self) -> int:
        return len(self._built)
