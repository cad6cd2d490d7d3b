"""Who may be seen and who may match, by climbing parents."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.oracle.model import Conditions, Context, Path, World


def lines_up(path: Path) -> list[Path]:
    """List a path and its ancestors, the nearest first."""
    return [path[:length] for length in range(len(path), -1, -1)]


def is_in_scope(path: Path, conditions: Conditions) -> bool:
    """Return whether the nearest listed node on the way up is an included one."""
    for place in lines_up(path):
        if place in conditions.excluded:
            return False
        if place in conditions.included:
            return True
    return False


def is_alive(context: Context, conditions: Conditions) -> bool:
    """Return whether a context has not expired."""
    return context.expire_us == 0 or context.expire_us > conditions.now_us


def is_visible(world: World, path: Path, conditions: Conditions) -> bool:
    """Return whether neither a context nor an ancestor is missing or expired."""
    return all(place in world and is_alive(world[place], conditions) for place in lines_up(path))


def is_wanted(context: Context, conditions: Conditions) -> bool:
    """Apply the filter, but for levels."""
    return conditions.is_open or (
        context.type in conditions.types
        and conditions.tags <= context.tags
        and conditions.updated[0] <= context.update_us < conditions.updated[1]
        and conditions.created[0] <= context.create_us < conditions.created[1]
    )


def may_match(world: World, path: Path, conditions: Conditions) -> bool:
    """Apply all conditions but levels."""
    return is_visible(world, path, conditions) and is_in_scope(path, conditions) and is_wanted(world[path], conditions)
