"""Which column plays which role: by what the user says, else by its name, else by its place.

The user's word is a mapping from a role to a column, or several joined with "+": ``{"source": "a", "attr": "d+e"}``. In a
file without a header columns are called by their place, from 0. ``skip`` leaves columns out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from starling.core.errors import InputError, nearest
from starling.stream.readers.source import Column, ColumnSource

Roles = dict[str, tuple[int, ...]]

_EDGE_NAMES = {
    "source": "src source from fromnode fromnodeid fromid u head subject sourceid srcid sourcenode node1 id1 start startnode",
    "destination": "dst dest destination target to tonode tonodeid toid v tail object targetid dstid destinationid destid "
    "targetnode node2 id2 end endnode",
    "weight": "w weight weights edgeweight",
    "type": "type relation rel label etype edgetype predicate relationtype",
    "time": "time timestamp ts edgetime date datetime",
    "split": "split edgesplit",
}
_NOT_DATA = ("id", "eid", "edgeid", "index", "unnamed0")
_NODE_NAMES = {
    "id": "id node nodeid nid ids nodeids",
    "label": "label labels y class target",
    "split": "split",
    "train": "train trainmask istrain",
    "val": "val valid validation valmask validmask isval",
    "test": "test testmask istest",
    "type": "type nodetype ntype",
    "time": "time timestamp ts nodetime",
}
EDGE_ROLES = ("source", "destination", "weight", "type", "time", "split", "attr", "skip")
NODE_ROLES = (*_NODE_NAMES, "x", "skip")
_SEVERAL = ("attr", "x", "label", "skip")


def names_edges(names: Sequence[str]) -> bool:
    """Whether a row of words reads like the header of an edge file."""
    return {"source", "destination"} <= set(_roles_by_name(names, _EDGE_NAMES))


def names_nodes(names: Sequence[str]) -> bool:
    """Whether a row of words reads like the header of a node table."""
    return bool(_roles_by_name(names, _NODE_NAMES))


def edge_roles(source: ColumnSource, asked: Mapping[str, str]) -> Roles:
    """The role of each column of an edge file; every column has one, or is skipped.

    Columns left over are attributes where the file names them, numbers of rows or edges apart; in a file without a header
    a third column is a weight, and more must be named.
    """
    roles = _asked_roles(source, asked, EDGE_ROLES, "")
    explicit = set(roles)
    _add_by_name(roles, source, _EDGE_NAMES, "--column ")
    _find_ends(roles, source)
    rest = _unused(roles, source.columns)
    if rest and "attr" not in explicit:
        if source.named:
            roles["attr"] = tuple(column.index for column in rest if _plain(column.name) not in ("", *_NOT_DATA))
        elif len(rest) == 1 and "weight" not in roles:
            roles["weight"] = (rest[0].index,)
        else:
            raise InputError(
                f"{source.name} has {len(source.columns)} columns and no header. Name those beyond the two ends, for example "
                f"--column weight={rest[0].index} or --column skip={'+'.join(str(column.index) for column in rest)}."
            )
    return _in_use(roles)


def node_roles(source: ColumnSource, asked: Mapping[str, str], option: str) -> Roles:
    """The role of each column of a node table given as `option`: ``nodes``, ``features`` or ``labels``.

    In a nodes table names tell, and what is left is features. A features table is features but for its id. A labels table
    is labels but for its id and what names tell: one column, or one a class.
    """
    roles = _asked_roles(source, asked, NODE_ROLES, f"{option}.")
    explicit = set(roles)
    if option == "nodes" and not source.named and not explicit:
        raise InputError(
            f"Expected a first line that names the columns of {source.name} (id, label, split, …). Add one, or name "
            "columns by their place: --column nodes.id=0."
        )
    names = {"id": _NODE_NAMES["id"]} if option == "features" else _NODE_NAMES
    _add_by_name(roles, source, names, f"--column {option}.")
    rest = [column for column in _unused(roles, source.columns) if _plain(column.name) not in ("", "unnamed0")]
    if "id" not in roles and rest and rest[0].index == 0 and _looks_like_id(source, option):
        roles["id"] = (rest.pop(0).index,)
    default = "label" if option == "labels" else "x"
    if rest and default not in explicit:
        if default in roles:
            raise InputError(f"{rest[0]} of {source.name} has no role. Leave it out with --column {option}.skip=NAME.")
        roles[default] = tuple(column.index for column in rest)
    roles = _in_use(roles)
    if option != "nodes" and not set(roles) - {"id"}:
        raise InputError(f"{source.name} has no column of {option}, only ids.")
    return roles


def _looks_like_id(source: ColumnSource, option: str) -> bool:
    """Whether a first column without a telling name holds the ids: it is text, ends in "id", or stands before a lone label."""
    first = source.columns[0]
    if len(source.columns) == 1:
        return option == "nodes" and first.kind == "text"
    return first.kind == "text" or _plain(first.name).endswith("id") or (option == "labels" and len(source.columns) == 2)


def _in_use(roles: Roles) -> Roles:
    return {role: columns for role, columns in roles.items() if columns and role != "skip"}


def _find_ends(roles: Roles, source: ColumnSource) -> None:
    """Make sure of a source and a destination: the first two columns where no name tells."""
    missing = [end for end in ("source", "destination") if end not in roles]
    if len(missing) == 1:
        other = "destination" if missing == ["source"] else "source"
        found = source.columns[roles[other][0]]
        raise InputError(
            f"{source.name} has a {other} ({found}) and no {missing[0]} that can be told by its name. "
            f"Say which with --column {missing[0]}=NAME."
        )
    if missing:
        free = _unused(roles, source.columns)
        if len(free) < 2:
            raise InputError(
                f"Expected at least 2 columns (source and destination) in {source.name}, got {len(source.columns)}. "
                "If fields are told apart in another way, pass --delimiter."
            )
        roles["source"], roles["destination"] = (free[0].index,), (free[1].index,)


def _asked_roles(source: ColumnSource, asked: Mapping[str, str], known: Sequence[str], prefix: str) -> Roles:
    roles: Roles = {}
    for role, text in asked.items():
        if role not in known:
            raise InputError(
                f"There is no role '{prefix}{role}' for a column. {nearest(prefix + role, [prefix + k for k in known])}"
            )
        indices = _indices(source, text)
        if len(indices) > 1 and role not in _SEVERAL:
            raise InputError(f"Expected one column for {prefix}{role}, got {text}.")
        roles[role] = indices
    used = [index for indices in roles.values() for index in indices]
    for index in used:
        if used.count(index) > 1:
            raise InputError(f"{source.columns[index]} of {source.name} is named for two roles. Name it once.")
    return roles


def _indices(source: ColumnSource, text: str) -> tuple[int, ...]:
    places: dict[str, int] = {}
    for column in source.columns:
        places.setdefault(column.name, column.index)
    wanted = [text] if text in places else text.split("+")
    for name in wanted:
        if name not in places:
            kind = "column" if source.named else "column number (there is no header)"
            raise InputError(f"There is no {kind} '{name}' in {source.name}. {nearest(name, places)}")
    return tuple(places[name] for name in wanted)


def _add_by_name(roles: Roles, source: ColumnSource, names: Mapping[str, str], flag: str) -> None:
    if not source.named:
        return
    free = _unused(roles, source.columns)
    for role, places in _roles_by_name([column.name for column in free], names).items():
        if role in roles:
            continue
        if len(places) > 1:
            first, second = free[places[0]], free[places[1]]
            raise InputError(
                f"Both {first} and {second} of {source.name} may be the {role}. "
                f"Say which with {flag}{role}={first.name}, and leave the other out with {flag}skip={second.name}."
            )
        roles[role] = (free[places[0]].index,)


def _roles_by_name(names: Sequence[str], known: Mapping[str, str]) -> dict[str, list[int]]:
    """The places of the names that tell a role."""
    role_of = {word: role for role, words in known.items() for word in words.split()}
    roles: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        role = role_of.get(_plain(name))
        if role is not None:
            roles.setdefault(role, []).append(place)
    return roles


def _plain(name: str) -> str:
    """``From_Node ID`` as ``fromnodeid``."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def _unused(roles: Roles, columns: Sequence[Column]) -> list[Column]:
    used = {index for indices in roles.values() for index in indices}
    return [column for column in columns if column.index not in used]
