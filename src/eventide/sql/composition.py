"""A join whose rows another part of the query would have to read: refused, in this one place.

It would be a stream of its own, without a name, that the rest of the query reads.
"""

from __future__ import annotations

from eventide.errors import SqlError
from eventide.sql.syntax import JoinNode
from eventide.sql.tokens import Span

_HELP = "make the join a stream of its own: CREATE STREAM joined AS SELECT ... FROM l JOIN r ...; then read joined"


def read_by_another(join: JoinNode) -> SqlError:
    """For a join inside FROM or UNION ALL that cannot be merged into the query around it."""
    return join.words.error("a join that another query reads is not supported here", _HELP)


def read_by_a_group(place: Span) -> SqlError:
    """For a join whose pairs would be grouped."""
    return place.error("one stream cannot both join and group", _HELP)


def read_by_a_join(join: JoinNode) -> SqlError:
    """For joins of three and more inputs."""
    return join.words.error("one stream joins two inputs", _HELP)
