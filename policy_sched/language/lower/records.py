"""Lowers fields of records: to columns, attributes of the pod, or look-ups."""

from __future__ import annotations

from typing import Final

from policy_sched.cluster.tables import MAX_SUM, NODE_COLUMNS, NODE_FIELDS
from policy_sched.language import stdlib, values
from policy_sched.language.ir import Level, Op, ops
from policy_sched.language.lower.abstract_values import (
    Abstract,
    Constant,
    ImageRecord,
    MaskedList,
    NodeMap,
    NodeRecord,
    Opt,
    UnitOf,
    Value,
    default_of,
    range_of,
    rep_of,
    truth,
)
from policy_sched.language.lower.context import Lowering, Refusal
from policy_sched.language.lower.logic import combine, with_error
from policy_sched.language.lower.loops import MAX_LENGTH, over
from policy_sched.language.syntax import Span
from policy_sched.language.values import types

#: Optional fields that the scheduler's objects hold as a number, 0 where there is none, so that
#: they are columns as other numbers are.
_NONE_IS_ZERO: Final = frozenset({("Pod", "startTime"), ("Pod", "deletionTime")})
_CODES: Final = {"name": ("name",), **{name: ("field", name) for name in NODE_FIELDS}}
_NUMBERS: Final = {"creationTime": "i", "podCount": "i", "unschedulable": "b", "ready": "b"}
_TEXTS: Final = types.map_of(types.STRING, types.STRING)
_MAPS: Final = {"labels": "label", "annotations": "annotation", "images": "image"}
_AMOUNTS: Final = (
    *("capacity", "allocatable", "requested", "nonZeroRequested", "free"),
    *("deviceAllocatable", "deviceRequested"),
)
_OBJECTS: Final = {
    "conditions": "status.conditions",
    "declaredFeatures": "status.declared_features",
}


def column_range(family: str) -> values.Interval:
    """Return the declared range of a family of columns."""
    column = NODE_COLUMNS[family]
    return values.Interval(column.minimum, column.maximum)


def _aggregate(
    low: Lowering, kind: types.AggregateType, key: Abstract, result: types.Type
) -> Value:
    """Lower the value of an aggregate for a key, or the map of those for a key left open."""
    low.aggregates.add(kind.identity)
    by, pod, rep = low.val(key), low.op(ops.POD, rep="o"), rep_of(kind.value)
    if kind.decays:
        now = low.op(ops.OF_CTX, rep="i", data="now")
        op = low.op(ops.AGGREGATE_THEN, low.plain(key).op, now, rep=rep, data=kind.identity)
        return Value(op, by.err, kind.value, range_of(kind.value))
    if result != kind.value:
        op = low.op(
            ops.AGGREGATE_OPEN, low.plain(key).op, pod, rep=rep_of(result), data=kind.identity
        )
        return Value(op, by.err, result, range_of(result))
    if kind.by_node and by.op.kind is ops.COLUMN and by.op.data == ("name",):
        if rep in "if":
            op = low.node_op(ops.AGGREGATE_ON_ROW, pod, rep=rep, data=kind.identity)
        else:
            row = low.node_op(ops.ROW, rep="i")
            op = low.op(ops.AGGREGATE_AT, pod, row, rep=rep, data=kind.identity)
    else:
        op = low.op(ops.AGGREGATE, low.plain(key).op, pod, rep=rep, data=kind.identity)
    return Value(op, by.err, kind.value, _range_of_aggregate(kind))


def _range_of_aggregate(kind: types.AggregateType) -> values.Interval:
    whole = kind.value == types.INT or isinstance(kind.value, types.QuantityType)
    if kind.counts:
        return values.Interval(0, MAX_LENGTH)
    if kind.sums and whole:
        return values.Interval(-MAX_SUM, MAX_SUM)
    return range_of(kind.value)


def field(low: Lowering, value: Abstract, name: str, result: types.Type, span: Span) -> Abstract:
    """Lower ``value.name`` of a record."""
    if isinstance(result, types.QuotaType):
        pod = low.op(ops.POD, rep="o")
        return Value(low.op(ops.QUOTA_TOTAL, pod, rep="o", data=low.quotas(result)), None, result)
    if isinstance(value.type, types.AggregateType):
        low.aggregates.add(value.type.identity)
        whole, of, by = value.type, ops.AGGREGATE_TOTAL, low.op(ops.POD, rep="o")
        if whole.decays:
            of, by = ops.AGGREGATE_TOTAL_THEN, low.op(ops.OF_CTX, rep="i", data="now")
        total = low.op(of, by, rep=rep_of(result), data=whole.identity)
        return Value(total, None, result, _range_of_aggregate(whole))
    if isinstance(result, types.InputType):
        assert isinstance(value, Constant)
        return Value(low.op(ops.INPUT, rep="o", data=value.value.get(name, name)), None, result)
    of_quota = isinstance(value, Value) and isinstance(value.type, types.QuotaType)
    if name == "object" and isinstance(result, types.ObjectType) and not of_quota:
        return _whole_object(low, value, result)
    match value:
        case NodeRecord():
            return node_field(low, name, result)
        case ImageRecord():
            return _image_field(low, value, name, result)
        case Constant() if isinstance(value.value, dict):
            return Constant(value.value.get(name, default_of(result)), result)
    operand = low.val(value)
    kind = operand.type
    if isinstance(kind, types.InputType):
        return _whole_input(low, operand, name, result, span)
    if isinstance(kind, types.QuotaType) and name == "object":
        stated = low.op(ops.ATTR, operand.op, rep="o", data=name)
        there = low.op(ops.IS_SOME, stated, rep="b")
        op = low.op(ops.WHERE, there, stated, _default(low, result).op, rep="o")
        return Value(op, operand.err, result)
    if kind == types.UNKNOWN:  # of an element that cannot be there
        return with_error(low, low.failing(values.NO_VALUE, "", span, result), operand.err)
    assert isinstance(kind, types.RecordType), (kind, name)
    if kind.fields and not isinstance(kind, types.ObjectType):
        key = low.val(Constant(name, types.STRING))
        return low.call(stdlib.value_at, [operand, key, _default(low, result)], result, span)
    return attribute(low, operand, kind.name, name, result)


def _whole_object(low: Lowering, value: Abstract, result: types.ObjectType) -> Value:
    """Return what the API has of a pod, a node or a group: the fields that the policy reads."""
    kind = low.objects.get(result.name, result)
    if isinstance(value, NodeRecord):
        return Value(low.op(ops.OBJECT_OF, low.node_object(), rep="o", data=kind), None, result)
    owner = low.val(value)
    return Value(low.op(ops.OBJECT_OF, owner.op, rep="o", data=kind), owner.err, result)


def attribute(low: Lowering, owner: Value, record: str, name: str, result: types.Type) -> Abstract:
    """Lower the field of a record that is a Python object."""
    records = stdlib.policy_environment().records
    declared = records[record].fields.get(name) if record in records else None
    interval = range_of(result)
    if declared is not None and declared.range is not None:
        interval = values.Interval(*declared.range)
    path = values.snake(record, name)
    if record == "Object" or isinstance(owner.type, types.ObjectType):
        path = values.ATTRIBUTE + name
    if record == "Cluster" and isinstance(result, types.ListType):
        return over(low, Value(low.op(ops.ATTR, owner.op, rep="o", data=path), owner.err, result))
    optional = isinstance(result, types.OptionalType)
    if isinstance(result, types.OptionalType) and (record, name) in _NONE_IS_ZERO:
        return _unless_zero(low, attribute(low, owner, record, name, result.element), result)
    rep = "o" if optional else rep_of(result)
    guards = () if owner.err is None else (owner.err,)
    if owner.op.kind is ops.POD:
        op = low.op(ops.FIELD_OF_POD, owner.op, rep=rep, data=path)
    elif guards:
        default = low.build.const(default_of(result), rep)
        bare = low.op(ops.ATTR, owner.op, rep=rep, data=path)
        op = low.op(ops.WHERE, low.op(ops.FAILED, guards[0], rep="b"), default, bare, rep=rep)
    else:
        op = low.op(ops.ATTR, owner.op, rep=rep, data=path)
    if optional:
        assert isinstance(result, types.OptionalType)
        present = low.op(ops.IS_SOME, op, rep="b")
        inner = rep_of(result.element)
        zero = low.build.const(default_of(result.element), inner)
        got = low.op(ops.WHERE, present, op, zero, rep=inner)
        value = Value(got, None, result.element, range_of(result.element))
        return Opt(truth(present), value, owner.err, result)
    return Value(op, owner.err, result, interval)


def _unless_zero(low: Lowering, value: Abstract, result: types.OptionalType) -> Opt:
    """Return a number as an optional that has no value where the number is 0."""
    amount = low.val(value)
    present = low.op(ops.GT, amount.op, low.build.const(0, "i"), rep="b")
    inside = Value(amount.op, None, result.element, amount.range)
    return Opt(truth(present), inside, amount.err, result)


def node_field(low: Lowering, name: str, result: types.Type) -> Abstract:
    """Lower a field of the node under evaluation."""
    if name in _CODES:
        return Value(_column(low, _CODES[name], "c"), None, types.STRING)
    if name in _NUMBERS:
        return Value(_column(low, (name,), _NUMBERS[name]), None, result, column_range(name))
    if name in _MAPS:
        return NodeMap(_MAPS[name], result)
    if name in _AMOUNTS:
        return NodeMap(name, result)
    if name == "taints":
        return Value(low.op(ops.TAINTS, _column(low, ("taints",), "k"), rep="o"), None, result)
    if name == "usedPorts":
        return Value(low.op(ops.PORTS, _column(low, ("usedPorts",), "k"), rep="o"), None, result)
    if name == "pods":
        return Value(low.op(ops.PODS_AT, low.node_op(ops.ROW, rep="i"), rep="o"), None, result)
    if name == "devices":
        row = low.node_op(ops.ROW, rep="i")
        return Value(low.op(ops.DEVICES_AT, row, rep="o"), None, result)
    if name in _OBJECTS:
        op = low.op(ops.ATTR, low.node_object(), rep="o", data=_OBJECTS[name])
        return Value(op, None, result)
    raise AssertionError(name)


def _column(low: Lowering, key: tuple[str, ...], rep: str) -> Op:
    return low.node_op(ops.COLUMN, rep=rep, data=key)


def _family_column(low: Lowering, family: str, name: Abstract, rep: str, span: Span) -> Op:
    """Return a column of a family by a name that is known before the node is."""
    if isinstance(name, Constant):
        return _column(low, (family, name.value), rep)
    resource = low.plain(name)
    if resource.op.level is Level.NODE:
        raise Refusal("PS211", "this name differs from node to node; a column has one name", span)
    return low.node_op(ops.COLUMN_OF, resource.op, rep=rep, data=family)


def _image_field(low: Lowering, image: ImageRecord, name: str, result: types.Type) -> Abstract:
    family = "imageSize"
    if name == "numNodes":
        op = low.op(ops.RUNTIME_OF, low.plain(image.name).op, rep="i", data="image_nodes")
        return Value(op, image.err, result, column_range("podCount"))
    op = _family_column(low, family, image.name, "i", Span(0, 0))
    return Value(op, image.err, result, column_range(family))


# Maps, resources and lists by key.


def lookup(
    low: Lowering, value: Abstract, key: Abstract, result: types.Type, span: Span
) -> Opt | Value | Constant:
    """Return what ``value[key]`` is: an Opt where it may be missing, else the value itself."""
    kind = value.type
    if isinstance(kind, types.InputType) and kind.annotation:
        return _annotation(low, kind, key, result, span)
    if isinstance(kind, types.InputType) and not kind.cached and _is_name_of_node(key):
        return _input_of_node(low, low.val(value), result)
    if isinstance(value, NodeMap):
        return _node_lookup(low, value, key, result, span)
    if kind == types.RESOURCES:
        return _amount(low, low.val(value), key, result, span)
    if isinstance(kind, types.ListType):
        return _list_lookup(low, value, key, result, span)
    if isinstance(value, Constant) and value.value is None:  # of an optional that has no value
        return Opt(Constant(False, types.BOOL), Constant(default_of(result), result), None, result)
    if isinstance(value, Constant) and isinstance(key, Constant):
        there = key.value in value.value
        inner = value.value[key.value] if there else default_of(result)
        return Opt(
            Constant(there, types.BOOL), Constant(inner, result), None, types.optional_of(result)
        )
    mapping, by = low.val(value), low.plain(key)
    error = low.first(mapping.err, by.err)
    present = low.call(stdlib.has_key, [mapping, by], types.BOOL, span)
    got = low.call(stdlib.value_at, [mapping, by, _default(low, result)], result, span)
    inside = Value(got.op, None, result, _values_range(value, result))
    return Opt(truth(present.op), inside, error, types.optional_of(result))


def _annotation(
    low: Lowering, kind: types.InputType, owner: Abstract, result: types.Type, span: Span
) -> Opt:
    """Return the record of the JSON that something has in an annotation."""
    annotations = field(low, owner, "annotations", _TEXTS, span)
    text = lookup(low, annotations, Constant(kind.annotation, types.STRING), types.STRING, span)
    assert isinstance(text, Opt)
    reader = low.build.const(values.annotation_reader(kind.record), "o")
    records = Value(reader, None, types.map_of(types.STRING, kind.record))
    record = lookup(low, records, low.val(text.value), result, span)
    assert isinstance(record, Opt)
    present = combine(low, [text.present, record.present], every=True)
    assert isinstance(present, Constant | Value)
    return Opt(present, record.value, low.first(text.err, record.err), record.type)


def _is_name_of_node(key: Abstract) -> bool:
    """Return whether a key is `node.name`, so that each row has an object of its own, or none."""
    return isinstance(key, Value) and key.op.kind is ops.COLUMN and key.op.data == ("name",)


def _whole_input(low: Lowering, whole: Value, name: str, result: types.Type, span: Span) -> Value:
    """Return all objects of an input, or what a polled answer says beside its items."""
    data, kind = str(whole.op.data), whole.type
    assert isinstance(kind, types.InputType)
    if name == "root":
        root = low.op(ops.INPUT_ROOT, _default(low, result).op, rep="o", data=data)
        return Value(root, None, result)
    exceeds = low.op(ops.INPUT_EXCEEDS, rep="b", data=data)
    error = low.error_if(
        exceeds, low.build.site(values.OUT_OF_RANGE, f"more than {kind.most}", span)
    )
    return Value(low.op(ops.INPUT_ALL, rep="o", data=data), error, result)


def _input_of_node(low: Lowering, whole: Value, result: types.Type) -> Opt:
    """Return the object of an input that has the node's name as its key: a column."""
    identity = str(whole.op.data)
    number = _column(low, ("input", identity), "k")
    there = low.op(ops.NE, number, low.build.const(0, "i"), rep="b")
    got = low.op(ops.INPUT_AT, number, _default(low, result).op, rep="o", data=identity)
    return Opt(truth(there), Value(got, None, result), None, types.optional_of(result))


def _values_range(value: Abstract, result: types.Type) -> values.Interval:
    """Return the range of a constant map's values (0 for a missing one)."""
    if isinstance(value, Constant) and rep_of(result) in "if":
        numbers = [0, *value.value.values()] if isinstance(value.value, dict) else [0, *value.value]
        if not any(isinstance(n, float) for n in numbers):
            return values.Interval(min(numbers), max(numbers))
    return range_of(result)


def _default(low: Lowering, kind: types.Type) -> Value:
    return Value(low.build.const(default_of(kind), rep_of(kind)), None, kind)


def _node_lookup(
    low: Lowering, value: NodeMap, key: Abstract, result: types.Type, span: Span
) -> Opt | Value | Constant:
    family = value.family
    if family in _AMOUNTS:
        op = _family_column(low, family, key, "i", span)
        kind = _dimensioned(low, result, key)
        return Value(op, low.first(value.err, key.err), kind, column_range(family))
    if not isinstance(key, Constant) and low.plain(key).op.level is Level.NODE:
        return lookup(low, low.val(value), key, result, span)
    if family == "image":
        present = _family_column(low, "imagePresent", key, "b", span)
        assert isinstance(key, Constant | Value)
        image = ImageRecord(key, result)
        return Opt(truth(present), image, key.err, types.optional_of(result))
    code = _family_column(low, family, key, "c", span)
    there = low.op(ops.NE, code, low.build.const(0, "i"), rep="b")
    text = Value(code, None, types.STRING)
    return Opt(truth(there), text, key.err, types.optional_of(result))


def _dimensioned(low: Lowering, result: types.Type, key: Abstract) -> types.Type:
    """Return the type of a resource's amount: a dimension, or the scale of a name not known yet."""
    if not isinstance(result, types.QuantityType):
        return result
    if isinstance(key, Constant):
        return dimension_of(key.value)
    name = low.plain(key)
    scale = low.call(
        stdlib.scale_of_resource, [Value(name.op, None, types.STRING)], types.INT, Span(0, 0)
    )
    return UnitOf(scale=scale.op)


def dimension_of(name: str) -> types.QuantityType:
    """Return the quantity type of a resource."""
    if name == "cpu":
        return types.quantity_of("cpu")
    if name in ("memory", "ephemeral-storage") or name.startswith("hugepages-"):
        return types.quantity_of("bytes")
    return types.quantity_of("count")


def _amount(low: Lowering, mapping: Value, key: Abstract, result: types.Type, span: Span) -> Value:
    kind = _dimensioned(low, result, key)
    by = low.plain(key)
    interval = values.Interval(-MAX_SUM if _may_be_negative(mapping.op) else 0, MAX_SUM)
    return low.call(stdlib.amount, [mapping, by], kind, span, interval=interval)


#: Attributes that are resources of which none is below zero.
_NEVER_NEGATIVE: Final = frozenset(
    {
        *("requests", "limits", "non_zero_requests", "capacity", "allocatable", "requested"),
        "overhead",
        *("consumed", "consumed_capacity"),
    }
)


def _may_be_negative(op: Op) -> bool:
    """Return whether an amount of resources may be below zero, as what is free may be."""
    if op.kind is ops.WHERE:  # nothing, where the owner is an error
        return any(map(_may_be_negative, op.args[1:]))
    if op.kind is ops.CONST:
        return bool(op.data)
    return op.kind not in (ops.ATTR, ops.FIELD_OF_POD) or op.data not in _NEVER_NEGATIVE


def _list_lookup(
    low: Lowering, value: Abstract, key: Abstract, result: types.Type, span: Span
) -> Opt:
    if isinstance(value, Constant) and value.value is None:  # of an optional that has no value
        return Opt(Constant(False, types.BOOL), Constant(default_of(result), result), None, result)
    if isinstance(value, Constant) and isinstance(key, Constant):
        there = 0 <= key.value < len(value.value)
        inner = value.value[key.value] if there else default_of(result)
        return Opt(
            Constant(there, types.BOOL), Constant(inner, result), None, types.optional_of(result)
        )
    if (
        isinstance(value, MaskedList)
        and isinstance(key, Constant)
        and 0 <= key.value < len(value.items)
        and all(mask is None for mask, _ in value.items)
    ):
        there = Constant(True, types.BOOL)
        return Opt(there, value.items[key.value][1], value.err, types.optional_of(result))
    items, by = low.val(value), low.val(key)
    present = low.call(stdlib.has_element, [items, by], types.BOOL, span)
    got = low.call(stdlib.element, [items, by, _default(low, result)], result, span)
    error = low.first(items.err, by.err)
    inside = Value(got.op, None, result, range_of(result))
    return Opt(truth(present.op), inside, error, types.optional_of(result))


def index(
    low: Lowering, value: Abstract, key: Abstract, result: types.Type, span: Span, *, optional: bool
) -> Abstract:
    """Lower ``value[key]``, or ``value[?key]`` whose result is an optional."""
    if isinstance(value.type, types.AggregateType):
        return _aggregate(low, value.type, key, result)
    if optional and isinstance(value.type, types.OptionalType):
        return _index_optional(low, value, key, result, span)
    inner = result.element if optional and isinstance(result, types.OptionalType) else result
    entry = lookup(low, value, key, inner, span)
    if not isinstance(entry, Opt):
        if not optional:
            return entry
        return _amount_if_named(low, value, key, entry, result, span)
    if optional:
        return entry
    kind = values.OUT_OF_RANGE if isinstance(value.type, types.ListType) else values.NO_SUCH_KEY
    detail = str(key.value) if isinstance(key, Constant) else ""
    if isinstance(entry.present, Constant):
        if not entry.present.value:
            return low.failing(kind, detail, span, inner)
        return with_error(low, entry.value, entry.err)
    missing = low.negation(entry.present.op)
    own = low.error_if(missing, low.build.site(kind, detail, span))
    return with_error(low, entry.value, low.first(entry.err, own))


def _amount_if_named(  # a map, a name, and the types of both
    low: Lowering,
    value: Abstract,
    key: Abstract,
    entry: Constant | Value,
    result: types.Type,
    span: Span,
) -> Opt:
    """Return a resource's amount as an optional: none where the resource is not named."""
    present = low.val(has(low, value, key, span))
    inner = Value(low.val(entry).op, None, entry.type, column_range("free"))
    there = truth(present.op)
    return Opt(there, inner, low.first(entry.err, present.err), result)


def _index_optional(
    low: Lowering, value: Abstract, key: Abstract, result: types.Type, span: Span
) -> Abstract:
    outer = low.opt(value)
    assert isinstance(result, types.OptionalType)
    entry = lookup(low, outer.value, key, result.element, span)
    if not isinstance(entry, Opt):
        return Opt(outer.present, entry, low.first(outer.err, entry.err), result)
    present = combine(low, [outer.present, entry.present], every=True)
    assert isinstance(present, Constant | Value)
    return Opt(present, entry.value, low.first(outer.err, entry.err), result)


def has(low: Lowering, value: Abstract, key: Abstract, span: Span) -> Abstract:
    """Lower ``key in value`` and has(value.key) of a map or resources."""
    if isinstance(value, NodeMap) and value.family in _AMOUNTS:
        if value.family != "allocatable":
            return low.call(stdlib.has_key, [low.val(value), low.plain(key)], types.BOOL, span)
        op = _family_column(low, "allocatable?", key, "b", span)
        return truth(op, key.err)
    kind = value.type
    if kind == types.RESOURCES:
        return low.call(stdlib.has_key, [low.val(value), low.plain(key)], types.BOOL, span)
    inner = kind.value if isinstance(kind, types.MapType) else types.STRING
    entry = lookup(low, value, key, inner, span)
    assert isinstance(entry, Opt)
    if entry.err is None:
        return entry.present
    return truth(low.val(entry.present).op, entry.err)
