"""What has to be done so that a store holds what a source has. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from memfs.model.objects import Memory
from memfs.model.paths import ancestors
from memfs.transfer.scan import Item
from memfs.transfer.steps import Step


@dataclass
class Plan:
    create: list[Item] = field(default_factory=list)
    update: list[tuple[Item, Memory]] = field(default_factory=list)
    """Each with the memory that has its path now."""
    clear: list[Memory] = field(default_factory=list)
    """To be deleted first: they are in the way of what is created."""
    delete: list[Memory] = field(default_factory=list)
    """To be deleted last."""
    steps: list[Step] = field(default_factory=list)
    """What is done with already: unchanged, or refused."""


def plan_import(items: Iterable[Item], heads: Mapping[str, Memory], *, delete: bool, keep: Iterable[str] = ()) -> Plan:
    """How the store with these `heads`, by path, gets to hold `items`.

    `delete`: memories that the source does not have go away, but for those of a path in `keep` (the source has something there
    that cannot be moved). A path equal to, above or below another memory's is refused (contract section 4.1, rule 9).
    """
    plan = Plan()
    items = list(items)
    wanted = {item.path for item in items}
    kept = set(keep)
    surplus = {path for path in heads if path not in wanted and path not in kept} if delete else set()
    standing = set(heads) - surplus
    above = _all_above(standing)
    in_the_way: set[str] = set()
    surplus_above = _all_above(surplus)
    for item in items:
        head = heads.get(item.path)
        if head is not None:
            if head.content_sha256 == item.sha256:
                plan.steps.append(Step(item.path, "unchanged"))
            else:
                plan.update.append((item, head))
            continue
        blocker = next((path for path in ancestors(item.path) if path in standing), None)
        if blocker is None and item.path in above:
            blocker = next(path for path in sorted(standing) if path.startswith(f"{item.path}/"))
        if blocker is not None:
            reason = f"{blocker} is a memory already, and one cannot lie below another: rename or remove one of the two"
            plan.steps.append(Step(item.path, "refused", reason))
            continue
        in_the_way |= surplus.intersection(ancestors(item.path))
        if item.path in surplus_above:
            in_the_way |= {path for path in surplus if path.startswith(f"{item.path}/")}
        plan.create.append(item)
        standing.add(item.path)
        above.update(ancestors(item.path))
    plan.clear = [heads[path] for path in sorted(in_the_way)]
    plan.delete = [heads[path] for path in sorted(surplus - in_the_way)]
    return plan


def _all_above(paths: Iterable[str]) -> set[str]:
    return {above for path in paths for above in ancestors(path)}
