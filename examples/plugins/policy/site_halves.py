"""Everyone gets half of what is best for it alone, on the resources with the fewest users."""

import numpy as np

from fairlead.plugins import NO_RESOURCE, Decision


class Halves:
    def decide(self, applications, pool, rng):
        users = np.zeros(len(pool), int)
        grants = [self._grant(applications.select_rows([row]), pool, users) for row in range(len(applications))]
        return Decision(np.array([choice for choice, _ in grants]), np.array([mine for _, mine in grants]))

    def arrive(self, application, running, pool, rng):
        choice, mine = self._grant(application, pool, running.users.copy())
        return Decision(np.array([choice]), np.array([mine]))

    def _grant(self, application, pool, users):
        counts = application.counts
        fits = np.flatnonzero((counts <= len(pool.usable)) & ~np.isnan(application.bandwidth[0]))
        mine = np.full(counts.max(), NO_RESOURCE)
        if not len(fits):
            return -1, mine
        choice = fits[np.argmin(abs(counts[fits] - counts[application.best[0]] / 2))]
        free = pool.usable[np.argsort(users[pool.usable], kind="stable")][: counts[choice]]
        mine[: len(free)] = free
        users[free] += 1
        return choice, mine
