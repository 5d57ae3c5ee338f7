"""The groups of kernels of an ensemble, joined: kernel n of the ensemble is kernel m of group g."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from .._utils.arrays import Array, Index
from ..models import Setting
from .history import History
from .kernel_groups import KernelGroup, Support
from .sampled_filter import RefreshRule


class JoinedGroups:
    """Groups of kernels that are resampled and moved together, one after the other.

    Parameters
    ----------
    groups
        The groups.

    Attributes
    ----------
    ends
        The number of kernels in all groups up to each one, shape [G].
    size
        The number N of kernels in all groups.
    movable
        The numbers of the groups whose kernels are moved.
    """

    def __init__(self, groups: Iterable[KernelGroup]) -> None:
        self._groups = tuple(groups)
        self.ends = np.cumsum([group.size for group in self._groups])
        self.size = int(self.ends[-1])
        self.movable = np.flatnonzero([group.movable for group in self._groups])

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[KernelGroup]:
        return iter(self._groups)

    def __getitem__(self, g: int) -> KernelGroup:
        return self._groups[g]

    def part(self, g: int) -> slice:
        """Return which kernels of the ensemble belong to group g."""
        end = int(self.ends[g])
        return slice(end - self._groups[g].size, end)

    def replaced(self, changes: dict[int, KernelGroup]) -> JoinedGroups:
        """Return the groups with some of them replaced by others of the same sizes, by number."""
        return JoinedGroups(changes.get(g, group) for g, group in enumerate(self._groups))

    @property
    def kernels(self) -> Array:
        """The kernels of all groups, shape [A, S, S′, N]."""
        return np.concatenate([group.kernels for group in self._groups], axis=-1)

    @property
    def factors(self) -> Array | None:
        """The factors of all groups, shape [A·R, S, S′, N]; None if the tables are known."""
        factors = [group.factors for group in self._groups if group.factors is not None]
        return np.concatenate(factors, axis=-1) if factors else None

    @property
    def have_tables(self) -> bool:
        """Whether kernels have observation models or costs of their own."""
        return any(group.factors is not None for group in self._groups)

    @property
    def initial(self) -> Array:
        """The initial distribution under each kernel, shape [S, N]."""
        return np.concatenate([group.initial for group in self._groups], axis=1)

    @property
    def support(self) -> Support:
        """The entries of the matrices of steps that are possible in some group, shape [K, S, S′]."""
        return np.asarray(np.any([group.support for group in self._groups], axis=0))

    def first_likelihood(self, past: History) -> Array:
        """Return η(o_1 | s) under each kernel, shape [S, N]; ones without a first observation."""
        return np.concatenate([group.first_likelihood(past) for group in self._groups], axis=1)

    def refresh_rule(self) -> RefreshRule:
        """Return the rule that refreshes a group when its effective size falls below half its size."""
        parts = [self.part(int(g)) for g in self.movable]
        begin = np.array([part.start for part in parts], np.int64)
        end = np.array([part.stop for part in parts], np.int64)
        return RefreshRule(begin, end, 0.5 * np.asarray(end - begin, np.float64))

    def factors_of(self, n: int) -> Array | None:
        """Return the factors of kernel n, shape [A·R, S, S′, 1]; None if the tables are known."""
        group, number = self._group_of(n)
        return None if group.factors is None else group.factors[..., number : number + 1]

    def setting_of(self, n: int) -> Setting | None:
        """Return the setting with the tables of kernel n; None if the tables are known."""
        group, number = self._group_of(n)
        return None if group.factors is None else group.setting_of(number)

    def fixed_kernels_like(self, transition: Array) -> Index:
        """Return which kernels of the first finite set that has the kernel `transition` are equal to it.

        They may have initial distributions of their own. The result is empty if no set has the kernel.
        """
        for g, group in enumerate(self._groups):
            if group.movable:
                continue
            same = np.flatnonzero((group.kernels == transition[..., None]).all(axis=(0, 1, 2)))
            if len(same) and group.initial[:, same].any():
                return np.asarray(same + self.part(g).start)
        return np.zeros(0, np.int64)

    def _group_of(self, n: int) -> tuple[KernelGroup, int]:
        """Return the group of kernel n, and the number of the kernel in the group."""
        g = int(np.searchsorted(self.ends, n, side="right"))
        return self._groups[g], n - self.part(g).start

    def state(self) -> dict[str, Any]:
        """Return the sizes and states of the groups.

        With several groups, names start with the group's number.
        """
        found: dict[str, Any] = {}
        for g, group in enumerate(self._groups):
            before = f"group_{g}_" if len(self._groups) > 1 else ""
            found |= {f"{before}{name}": value for name, value in group.state().items()}
            found[f"{before}size"] = group.size
        return found
