"""All cases, in the order in which they are run."""

from __future__ import annotations

import cases_hosts
import cases_members
import cases_neighbours
import cases_noise
import cases_strangers
import cases_updates

ALL = [
    *cases_noise.CASES,
    *cases_strangers.CASES,
    *cases_members.CASES,
    *cases_neighbours.CASES,
    *cases_hosts.CASES,
    *cases_updates.CASES,
]
