"""The front door: any supported files, opened as one `RawGraph`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Literal, TypeAlias

from starling.core.errors import InputError, nearest
from starling.stream.named import named
from starling.stream.raw import RawGraph, TableReader
from starling.stream.readers.columns import edge_roles, names_edges, names_nodes, node_roles
from starling.stream.readers.edges import ChainedEdges, ColumnEdges, StoredEdges
from starling.stream.readers.files import block_bytes, existing, sound
from starling.stream.readers.meta import Meta, read_meta
from starling.stream.readers.npy import edges_of, npy_table, open_npy
from starling.stream.readers.npz import Archive, is_whole_graph, npz_edges, npz_nodes, npz_table, user_ids
from starling.stream.readers.parquet import ParquetColumns
from starling.stream.readers.prepared import Prepared, Settings, agreed_kind
from starling.stream.readers.source import ColumnSource
from starling.stream.readers.table import ColumnTable
from starling.stream.readers.text import TextColumns
from starling.stream.readers.textinput import STANDARD_INPUT, StandardInput, TextFile
from starling.stream.readers.values import id_kind_of

Format = Literal["npy", "npz", "parquet", "text"]
_TEXT = ("csv", "tsv", "txt", "tab", "ssv", "dat", "edges", "edgelist", "el", "ncol", "content", "cites")
_FORMATS: dict[str, Format] = {
    ".npy": "npy",
    ".npz": "npz",
    ".parquet": "parquet",
    ".pq": "parquet",
    **{f".{suffix}": "text" for suffix in _TEXT},
}
_TABLES = ("nodes", "features", "labels")
_WORDS = {"x": "Features", "y": "Labels", "type": "Node types", "time": "Node times"} | {
    split: f"The {split} nodes" for split in ("train", "val", "test")
}
_NONE: Mapping[str, str] = MappingProxyType({})

EdgeInput: TypeAlias = Prepared[ColumnEdges] | Prepared[StoredEdges]


def open_inputs(
    files: Sequence[str],
    *,
    nodes: str | None = None,
    features: str | None = None,
    type_features: Mapping[str, str] = _NONE,
    labels: str | None = None,
    num_nodes: int | None = None,
    columns: Mapping[str, str] = _NONE,
    header: bool | None = None,
    delimiter: str | None = None,
    id_kind: Literal["auto", "integer", "string"] = "auto",
    memory: int,
) -> RawGraph:
    """Open a graph: edge files of one format read one after the other, ``-`` for standard input, or one whole-graph ``.npz``.

    `columns` says what a column is: ``source``, ``destination``, ``weight``, ``attr``, ``type``, ``time``, ``split`` or
    ``skip`` of the edges, or the same after ``nodes.``, ``features.`` or ``labels.`` with the roles of node tables (id, x,
    label, split, train, val, test, type, time, skip). `header` and `delimiter` are for text and found out by default.
    `type_features` are files of features of one node type each, by the type's name.
    Integer ids must be integers throughout; where any input has text ids, all are read as text.
    Everything is looked at here and read later, a block at a time, as `memory` allows.
    """
    given = {option: name for option, name in zip(_TABLES, (nodes, features, labels), strict=True) if name is not None}
    formats = _checked_formats(files, {**given, **{f"features of {kind}": name for kind, name in type_features.items()}})
    _refuse_idle_options(formats, header, delimiter)
    settings = Settings(block_bytes(memory), header, delimiter)
    asked = _by_table(columns, {*given, *(["features"] if type_features else [])})
    meta, counted, ids = Meta(), None, None
    tables: list[Prepared[TableReader]] = []
    edges: list[EdgeInput] = []
    for name in files:
        if formats[name] == "npz" and is_whole_graph(archive := Archive(name)):
            if len(files) > 1:
                raise InputError(f"{name} is a whole graph, which cannot be read together with other edge files.")
            counted = archive.whole_number("num_nodes") if "num_nodes" in archive else None
            meta, ids = read_meta(archive), user_ids(archive, text=id_kind == "string")
            table = npz_nodes(archive, settings, nodes=counted)
            tables += [table] if table is not None else []
        edges.append(_edges(name, formats[name], settings, asked["edges"]))
    tables += [_table(name, option, formats[name], settings, asked[option]) for option, name in given.items()]
    typed = {of: _table(name, "features", formats[name], settings, asked["features"]) for of, name in type_features.items()}
    kind = agreed_kind([*edges, *tables, *typed.values()], id_kind if ids is None else "integer")
    readers = [prepared.make(kind) for prepared in edges]
    opened = tuple(prepared.make(kind) for prepared in tables)
    _refuse_double(opened)
    opened += tuple(_of_type(prepared.make(kind), of) for of, prepared in typed.items())
    raw = RawGraph(
        edges=readers[0] if len(readers) == 1 else ChainedEdges(readers),
        tables=opened,
        nodes=_node_count(num_nodes, counted, files[0]),
        node_types=meta.node_types,
        edge_types=meta.edge_types,
        label_names=meta.label_names,
        directed=meta.directed,
        origin=meta.origin,
    )
    return raw if ids is None else named(raw, ids)


def _edges(name: str, form: Format, settings: Settings, asked: Mapping[str, str]) -> EdgeInput:
    if form in ("npy", "npz"):
        if asked:
            raise InputError(f"{name} has no columns to name (--column {next(iter(asked))}): arrays go by their own names.")
        return edges_of(open_npy(name), settings) if form == "npy" else npz_edges(Archive(name), settings)
    source = _columns(name, form, settings, of_edges=True)
    roles = edge_roles(source, asked)
    kinds = {id_kind_of(source.columns[roles[end][0]]) for end in ("source", "destination")}
    return Prepared("integer" if kinds == {"integer"} else "string", lambda kind: ColumnEdges(source, roles, kind))


def _table(name: str, option: str, form: Format, settings: Settings, asked: Mapping[str, str]) -> Prepared[TableReader]:
    if form in ("npy", "npz"):
        if asked:
            raise InputError(f"{name} has no columns to name (--column {option}.{next(iter(asked))}).")
        return npy_table(name, option, settings) if form == "npy" else npz_table(name, option, settings)
    source = _columns(name, form, settings, of_edges=False)
    roles = node_roles(source, asked, option)
    looks = id_kind_of(source.columns[roles["id"][0]]) if "id" in roles else None
    return Prepared(looks, lambda kind: ColumnTable(source, roles, kind, option))


def _columns(name: str, form: Format, settings: Settings, *, of_edges: bool) -> ColumnSource:
    if form == "parquet":
        return ParquetColumns(name, settings.block)
    text = StandardInput() if name == STANDARD_INPUT else TextFile(name)
    return TextColumns(
        text,
        header=settings.header,
        delimiter=settings.delimiter,
        known_names=names_edges if of_edges else names_nodes,
        ends=2 if of_edges else 0,
        block=settings.block // 2,  # text is held several times over: as read, clean, and parsed
    )


def _checked_formats(files: Sequence[str], tables: Mapping[str, str]) -> dict[str, Format]:
    """The format of every file, told by its name."""
    if not files:
        raise InputError("Expected at least one edge file, or - for standard input.")
    if STANDARD_INPUT in tables.values() or (STANDARD_INPUT in files and len(files) > 1):
        raise InputError("Standard input (-) can only be the edges, and then all of them.")
    formats = {name: _format(name) for name in [*files, *tables.values()]}
    for name in files[1:]:
        if formats[name] != formats[files[0]]:
            raise InputError(f"Expected edge files of one format, got {files[0]} and {name}. Convert one of them.")
    return formats


def _format(name: str) -> Format:
    if name == STANDARD_INPUT:
        return "text"
    suffixes = [suffix.lower() for suffix in PurePath(name).suffixes]
    packed = suffixes[-1:] == [".gz"]
    found = (suffixes[:-1] if packed else suffixes)[-1:]
    form = _FORMATS.get(found[0]) if found else ("text" if packed else None)
    if form is None or (packed and form != "text"):
        with sound(name):
            folder = Path(name).is_dir()
        if folder:
            existing(name)  # says so
        ending = "".join(suffixes[-2:] if packed else found) or "no ending"
        known = " ".join(_FORMATS)
        raise InputError(f"{name} has {ending}, which is no format Starling reads. Known: {known}; text also with .gz.")
    return form


def _refuse_idle_options(formats: Mapping[str, Format], header: bool | None, delimiter: str | None) -> None:
    if "text" not in formats.values() and (header is not None or delimiter is not None):
        raise InputError("A header or a delimiter was given, but none of the files is text. Leave it out.")


def _by_table(columns: Mapping[str, str], tables: Collection[str]) -> dict[str, dict[str, str]]:
    """The user's words about columns, sorted by the file they are about."""
    asked: dict[str, dict[str, str]] = {option: {} for option in ("edges", *_TABLES)}
    for key, text in columns.items():
        option, dot, role = key.rpartition(".")
        option = option if dot else "edges"
        if option not in asked:
            raise InputError(f"There is no table '{option}' to name columns of. {nearest(option, _TABLES)}")
        if option != "edges" and option not in tables:
            raise InputError(f"--column {key} is about a table that was not given. Pass --{option} FILE too.")
        asked[option][role] = text
    return asked


def _of_type(table: TableReader, kind: str) -> TableReader:
    """A table whose rows are those of one node type only."""
    table.of_type, table.defines_nodes = kind, False
    return table


def _refuse_double(tables: Sequence[TableReader]) -> None:
    """No role may be filled by two files."""
    names: dict[str, str] = {}
    for table in tables:
        for role in table.roles:
            if role in names:
                raise InputError(f"{_WORDS.get(role, role)} stand both in {names[role]} and in {table.name}. Give them once.")
            names[role] = table.name


def _node_count(asked: int | None, counted: int | None, name: str) -> int | None:
    """How many nodes there are, where the user or the archive says so; otherwise tables and ids tell, later."""
    if asked is not None and counted is not None and asked != counted:
        raise InputError(f"{name} has {counted:,} nodes, --num-nodes says {asked:,}. Leave it out.")
    return asked if asked is not None else counted
