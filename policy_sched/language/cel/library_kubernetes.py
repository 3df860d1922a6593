"""Functions that Kubernetes adds to CEL, from lists to versions, addresses and formats."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import ip_address, ip_network
from itertools import islice
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import re2

from policy_sched.language.cel import values
from policy_sched.language.cel.library import Kernel, compare, int64, ordered, rule_kernel
from policy_sched.language.stdlib import Version, version
from policy_sched.language.values import Fault
from policy_sched.model import Quantity, parse

NANO: Final = 10**9


def _quantity(text: str) -> Quantity:
    try:
        return parse(text)
    except ValueError as error:
        raise values.CelError(str(error)) from None


def _is(make: Callable[[str], object]) -> Kernel:
    def works(text: str, *more: Any) -> bool:
        try:
            make(text, *more)
        except values.CelError:
            return False
        return True

    return works


def _as_integer(quantity: Quantity) -> int:
    if not _is_integer(quantity):
        raise values.CelError("cannot convert value to integer")
    return quantity.nanos // NANO


def _is_integer(quantity: Quantity) -> bool:
    return quantity.nanos % NANO == 0 and -(2**63) <= quantity.nanos // NANO < 2**63


def _plus(a: Quantity, b: Quantity | int, sign: int = 1) -> Quantity:
    more = b.nanos if isinstance(b, Quantity) else b * NANO
    return Quantity(a.nanos + sign * more, a.format)


def read_version(text: str, normalize: bool = False) -> Version:
    """Read a version. Raises CelError."""
    try:
        return version(text, normalize)
    except Fault:
        raise values.CelError(_version_fault(text)) from None


def _version_fault(text: str) -> str:
    """Say what is wrong with a version, as the library does that Kubernetes uses."""
    if not text:
        return "Version string empty"
    parts = text.split(".", 2)
    if len(parts) != 3:
        return "No Major.Minor.Patch elements found"
    patch = re.split(r"[-+]", parts[2], maxsplit=1)[0]
    for name, part in zip(("major", "minor", "patch"), (*parts[:2], patch), strict=True):
        if not part.isdigit() or not part.isascii():
            return f'Invalid character(s) found in {name} number "{part}"'
        if len(part) > 1 and part[0] == "0":
            return f'{name.capitalize()} number must not contain leading zeroes "{part}"'
    return f'invalid semantic version "{text}"'


def _sum(items: list[Any]) -> Any:
    if not items:
        return 0
    total = items[0]
    for item in items[1:]:
        total = total + item
    if isinstance(items[0], float):
        return total
    kind = type(items[0])
    return kind(int64(int(total))) if kind in (values.Duration, values.Uint) else int64(total)


def _extreme(sign: int, name: str) -> Kernel:
    def extreme_of(items: list[Any]) -> Any:
        if not items:
            raise values.CelError(f"{name} called on empty list")
        best = items[0]
        for item in items[1:]:
            if compare(item, best) * sign > 0:
                best = item
        return best

    return extreme_of


def _index(items: list[Any], sought: Any) -> int:
    return next((i for i, item in enumerate(items) if values.equal(item, sought)), -1)


def _last_index(items: list[Any], sought: Any) -> int:
    return next((i for i in range(len(items) - 1, -1, -1) if values.equal(items[i], sought)), -1)


def _distinct(items: list[Any]) -> list[Any]:
    distinct: list[Any] = []
    for item in items:
        if not any(values.equal(item, other) for other in distinct):
            distinct.append(item)
    return distinct


def _flatten(items: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise values.CelError("level must be non-negative")
    flat: list[Any] = []
    for item in items:
        if isinstance(item, list) and depth > 0:
            flat.extend(_flatten(item, depth - 1))
        else:
            flat.append(item)
    return flat


def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise values.CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise values.CelError(
            f"cannot slice({start}, {end}), start index must be less than or equal to end index"
        )
    if end > len(items):
        raise values.CelError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def _contains_all(items: list[Any], others: list[Any]) -> bool:
    return all(any(values.equal(item, other) for item in items) for other in others)


def _find_all(text: str, pattern: str, most: int = -1) -> list[str]:
    rule_kernel("find_string_string")(text, pattern)  # for its faults and limits
    matches = (match.group(0) for match in re2.finditer(pattern, text))
    return list(islice(matches, None if most < 0 else most))


def _ip(text: str) -> values.Address:
    odd = "%" in text or (":" in text and "." in text)
    try:
        return values.Address(ip_address("" if odd else text))
    except ValueError:
        raise values.CelError(
            f'IP Address "{text}" parse error during conversion from string'
        ) from None


def _cidr(text: str) -> values.Network:
    address, _, length = text.rpartition("/")
    try:
        return values.Network(_ip(address).ip, ip_network(f"{address}/{int(length)}", strict=False))
    except (ValueError, values.CelError):
        why = "network address parse error during conversion from string"
        raise values.CelError(f'{why}: "{text}"') from None


def _contains_ip(network: values.Network, other: values.Address) -> bool:
    return network.network.version == other.ip.version and other.ip in network.network


def _contains_cidr(network: values.Network, other: values.Network) -> bool:
    return (
        network.network.version == other.network.version
        and other.network.network_address in network.network
        and other.network.prefixlen >= network.network.prefixlen
    )


def _url(text: str) -> values.Url:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError as error:
        raise values.CelError(f"URL parse error during conversion from string: {error}") from None
    if not (parts.scheme or text.startswith("/")) or " " in text:
        raise values.CelError(
            f'URL parse error during conversion from string: parse "{text}": invalid URI'
        )
    return values.Url(parts)


def _host(url: values.Url) -> str:
    return url.parts.netloc.rsplit("@", 1)[-1]


def _hostname(url: values.Url) -> str:
    host = _host(url)
    return host[1 : host.find("]")] if host.startswith("[") else host.split(":")[0]


def _query(url: values.Url) -> values.CelMap:
    return values.CelMap(parse_qs(url.parts.query, keep_blank_values=True))


_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_FORMATS: Final[dict[str, tuple[str, int]]] = {
    "dns1123Label": (_LABEL, 63),
    "dns1123LabelPrefix": (_LABEL, 63),
    "dns1123Subdomain": (rf"{_LABEL}(\.{_LABEL})*", 253),
    "dns1123SubdomainPrefix": (rf"{_LABEL}(\.{_LABEL})*", 253),
    "dns1035Label": (r"[a-z]([-a-z0-9]*[a-z0-9])?", 63),
    "dns1035LabelPrefix": (r"[a-z]([-a-z0-9]*[a-z0-9])?", 63),
    "labelValue": (r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", 63),
    "qualifiedName": (rf"({_LABEL}(\.{_LABEL})*/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", 317),
    "uuid": (r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}", 36),
    "byte": (r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", 10**6),
    "date": (r"[0-9]{4}-[0-9]{2}-[0-9]{2}", 10),
    "datetime": (r"[0-9]{4}-[0-9]{2}-[0-9]{2}[tT][0-9:.]+([zZ]|[+-][0-9:]+)", 64),
    "uri": (r"[A-Za-z][A-Za-z0-9+.-]*:\S*|/\S*", 10**6),
}


def _format_named(name: str) -> values.Optional:
    return values.Optional(True, values.NamedFormat(name)) if name in _FORMATS else values.ABSENT


def _validate(named: values.NamedFormat, text: str) -> values.Optional:
    pattern, longest = _FORMATS[named.name]
    if named.name.endswith("Prefix"):
        text = text.removesuffix("-")
    if len(text) <= longest and re.fullmatch(pattern, text) is not None:
        return values.ABSENT
    return values.Optional(True, [f"invalid {named.name}"])


def _includes(container: Any, other: Any) -> bool:
    if isinstance(container, list):
        return any(values.equal(item, other) for item in container)
    return values.equal(container, other)


_LOCAL_MULTICAST: Final = {4: ip_network("224.0.0.0/24"), 6: ip_network("ff02::/16")}
KUBERNETES: Final[dict[str, Kernel]] = {
    "min_list": _extreme(-1, "min"),
    "max_list": _extreme(1, "max"),
    "isSorted_list": lambda a: ordered(a) == a,
    "sum_list": _sum,
    "sort_list": ordered,
    "indexOf_list_any": _index,
    "lastIndexOf_list_any": _last_index,
    "slice_list_int_int": _slice,
    "flatten_list": _flatten,
    "flatten_list_int": _flatten,
    "distinct_list": _distinct,
    "first_list": lambda a: values.Optional(True, a[0]) if a else values.ABSENT,
    "last_list": lambda a: values.Optional(True, a[-1]) if a else values.ABSENT,
    "sets_contains_list_list": _contains_all,
    "sets_equivalent_list_list": lambda a, b: _contains_all(a, b) and _contains_all(b, a),
    "sets_intersects_list_list": lambda a, b: any(values.equal(x, y) for x in a for y in b),
    "findAll_string_string": _find_all,
    "findAll_string_string_int": _find_all,
    "quantity_string": _quantity,
    "sign_quantity": lambda a: a.sign(),
    "isInteger_quantity": _is_integer,
    "asInteger_quantity": _as_integer,
    "asApproximateFloat_quantity": lambda a: a.nanos / NANO,
    "add_quantity_quantity": _plus,
    "add_quantity_int": _plus,
    "sub_quantity_quantity": lambda a, b: _plus(a, b, -1),
    "sub_quantity_int": lambda a, b: _plus(a, b, -1),
    "isGreaterThan_quantity_quantity": lambda a, b: a.nanos > b.nanos,
    "isLessThan_quantity_quantity": lambda a, b: a.nanos < b.nanos,
    "compareTo_quantity_quantity": lambda a, b: compare(a.nanos, b.nanos),
    "semver_string": read_version,
    "semver_string_bool": read_version,
    "ip_string": _ip,
    "isIP_string": _is(_ip),
    "ip_isCanonical_string": lambda text: str(_ip(text).ip) == text,
    "family_ip": lambda a: a.ip.version,
    "isUnspecified_ip": lambda a: a.ip.is_unspecified,
    "isLoopback_ip": lambda a: a.ip.is_loopback,
    "isLinkLocalMulticast_ip": lambda a: a.ip in _LOCAL_MULTICAST[a.ip.version],
    "isLinkLocalUnicast_ip": lambda a: a.ip.is_link_local,
    "isGlobalUnicast_ip": lambda a: (
        not (
            a.ip.is_unspecified
            or a.ip.is_loopback
            or a.ip.is_multicast
            or a.ip.is_link_local
            or str(a.ip) == "255.255.255.255"
        )
    ),
    "cidr_string": _cidr,
    "isCIDR_string": _is(_cidr),
    "containsIP_cidr_ip": _contains_ip,
    "containsIP_cidr_string": lambda a, text: _contains_ip(a, _ip(text)),
    "containsCIDR_cidr_cidr": _contains_cidr,
    "containsCIDR_cidr_string": lambda a, text: _contains_cidr(a, _cidr(text)),
    "ip_cidr": lambda a: values.Address(a.ip),
    "masked_cidr": lambda a: values.Network(a.network.network_address, a.network),
    "prefixLength_cidr": lambda a: a.network.prefixlen,
    "url_string": _url,
    "isURL_string": _is(_url),
    "getScheme_url": lambda a: a.parts.scheme,
    "getHost_url": _host,
    "getHostname_url": _hostname,
    "getPort_url": lambda a: str(a.parts.port or ""),
    "getEscapedPath_url": lambda a: a.parts.path,
    "getQuery_url": _query,
    "format_named_string": _format_named,
    "validate_format_string": _validate,
    **{f"format_{name}": lambda name=name: values.NamedFormat(name) for name in _FORMATS},
    "includes_any_any": _includes,
    "includes_list_any": _includes,
}
