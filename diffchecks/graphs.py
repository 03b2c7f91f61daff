"""Reachability and shortest paths in directed graphs, without the third of a second of networkx."""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def reachable(following: Mapping[Node, Iterable[Node]], start: Node) -> set[Node]:
    """The nodes reachable from a node; itself only if it is in a cycle."""
    seen: set[Node] = set()
    ahead = [start]
    while ahead:
        new = set(following.get(ahead.pop(), ())) - seen
        seen |= new
        ahead += new
    return seen


def shortest_path(
    following: Callable[[Node], Iterable[Node]], start: Node, end: Node
) -> list[Node] | None:
    """A shortest path between two nodes, including both; None: there is none."""
    came_from = {start: start}
    waiting = deque([start])
    while end not in came_from and waiting:
        node = waiting.popleft()
        for other in following(node):
            if other not in came_from:
                came_from[other] = node
                waiting.append(other)
    if end not in came_from:
        return None
    path = [end]
    while path[-1] != start:
        path.append(came_from[path[-1]])
    return path[::-1]
