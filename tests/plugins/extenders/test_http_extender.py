"""HttpExtender: the wire format of every verb, and every kind of failure."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import pytest

from policy_sched.errors import PluginError
from policy_sched.framework.extender import NamedVictims, NodeVictims
from policy_sched.model.meta import LabelSelector
from policy_sched.model.pod_info import PodInfo
from policy_sched.model.selectors import label_selector
from policy_sched.plugins.extenders.http_extender import ExtenderSettings, HttpExtender, TlsSettings
from policy_sched.testing import make_node, make_pod
from tests.plugins.extenders import server

POD = PodInfo.of(make_pod("p", cpu="1", labels={"app": "web"}))
OPENED: list[HttpExtender] = []
VICTIMS = {"a": NodeVictims((PodInfo.of(make_pod("v", uid="u1")),), 1)}
NODES = [make_node(name, cpu="4", labels={"n": name}) for name in ("a", "b", "c")]


def client(calls: server.Calls, **settings: object) -> HttpExtender:
    """Return the client of a served extender that has every verb."""
    verbs = {f"{verb}_verb": verb for verb in ("filter", "prioritize", "preempt", "bind")}
    chosen = {"url_prefix": calls.address, **verbs, **settings}
    OPENED.append(HttpExtender(ExtenderSettings(**chosen)))  # type: ignore[arg-type]  # keywords of ExtenderSettings
    return OPENED[-1]


@pytest.fixture(autouse=True)
def _close_connections() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


class TestFilter:
    """The verb filter."""

    def test_nodes_are_sent_whole_and_come_back_whole(self) -> None:
        """Without a node cache the extender gets nodes, and the nodes of its response count."""

        def keep(arguments: dict[str, dict[str, list[object]]]) -> object:
            return {"Nodes": {"items": arguments["Nodes"]["items"][:2]}, "NodeNames": ["c"]}

        with server.extender({"filter": keep}) as calls:
            passed = client(calls).filter(POD, NODES)
        assert passed.nodes == {"a", "b"}
        ((_, sent),) = calls.requested
        assert sent["NodeNames"] is None
        assert sent["Pod"]["metadata"]["name"] == "p"
        first = sent["Nodes"]["items"][0]
        assert first["metadata"]["labels"] == {"n": "a"}
        assert first["status"]["allocatable"]["cpu"] == "4"

    def test_many_nodes_are_sent_in_pieces_and_are_all_there(self) -> None:
        """With any number of nodes, they arrive in order, and so does the response."""
        nodes = [make_node(f"n{i}") for i in range(1000)]
        with server.extender({"filter": lambda sent: {"Nodes": sent["Nodes"]}}) as calls:
            passed = client(calls).filter(POD, nodes)
            assert client(calls).filter(POD, nodes[:64]).nodes == {f"n{i}" for i in range(64)}
        names = [node["metadata"]["name"] for node in calls.requested[0][1]["Nodes"]["items"]]
        assert names == [f"n{i}" for i in range(1000)]
        assert passed.nodes == set(names)

    def test_names_suffice_for_an_extender_with_a_node_cache(self) -> None:
        """With a node cache names are sent, and names come back with reasons for the others."""
        answer = {
            "NodeNames": ["a"],
            "FailedNodes": {"b": "full"},
            "FailedAndUnresolvableNodes": {"c": "broken"},
            "Error": "",
        }
        with server.extender({"filter": answer}) as calls:
            passed = client(calls, node_cache_capable=True).filter(POD, NODES)
        assert (passed.nodes, passed.failed, passed.unresolvable) == (
            {"a"},
            {"b": "full"},
            {"c": "broken"},
        )
        ((_, sent),) = calls.requested
        assert (sent["Nodes"], sent["NodeNames"]) == (None, ["a", "b", "c"])

    @pytest.mark.parametrize(
        ("capable", "answer", "left"),
        [
            (True, {"nodenames": ["a"]}, {"a"}),
            (True, {"nodeNames": [], "nodes": {"items": [{"metadata": {"name": "a"}}]}}, set()),
            (True, {"Nodes": {"items": [{"metadata": {"name": "b"}}]}}, {"b"}),
            (False, {"NodeNames": ["a"]}, set()),
            (False, {"Nodes": {"items": None}}, set()),
            (True, {}, set()),
            (True, None, set()),
            (True, {"NodeNames": None, "FailedNodes": None, "Extra": 1}, set()),
        ],
    )
    def test_the_forms_of_an_answer(self, capable: bool, answer: object, left: set[str]) -> None:
        """Case does not matter, names count with a cache only, and nothing means no node."""
        with server.extender({"filter": answer}) as calls:
            passed = client(calls, node_cache_capable=capable).filter(POD, NODES)
        assert passed.nodes == left

    @pytest.mark.parametrize(
        ("answer", "words"),
        [
            ({"Error": "no idea"}, "^no idea$"),
            ({"NodeNames": ["a", "z"]}, 'claims a filtered node "z" which is not found in the in'),
            ({"NodeNames": "a"}, "cannot read the response: Expected `array | null`, got `str`"),
            (b"garbage", "/extend/filter, cannot read the response: JSON is malformed"),
            (b"", "cannot read the response: Input data was truncated"),
            (b"[" * 100_000, "cannot read the response"),
            (500, "^failed filter with extender at URL http://127.*/extend/filter, code 500$"),
            (302, "code 302$"),
            (server.CLOSE, '^Post "http://127.*/extend/filter": EOF$'),
            (server.HALF, "unexpected EOF"),
            (server.NOISE, "malformed HTTP response"),
        ],
    )
    def test_a_failure_names_its_cause(self, answer: object, words: str) -> None:
        """Every fault of the server is one error that names it."""
        with server.extender({"filter": answer}) as calls, pytest.raises(PluginError, match=words):
            client(calls, node_cache_capable=True).filter(POD, NODES)

    @pytest.mark.parametrize("answer", [server.HANG, server.DRIP], ids=["silent", "unfinished"])
    def test_a_slow_server_is_given_up(self, answer: object) -> None:
        """The timeout covers the whole call, the body of the response included."""
        with (
            server.extender({"filter": answer}) as calls,
            pytest.raises(PluginError, match="context deadline exceeded"),
        ):
            client(calls, timeout=0.05).filter(POD, NODES)

    def test_a_refused_connection_is_an_error_in_gos_words(self) -> None:
        """A refused connection is an error in Go's words."""
        with server.extender({}) as calls:
            pass
        with pytest.raises(PluginError, match=r"dial tcp 127.*: connect: connection refused"):
            client(calls).filter(POD, NODES)


class TestPrioritize:
    """The verb prioritize."""

    @pytest.mark.parametrize(
        ("answer", "scores"),
        [
            ([{"Host": "a", "Score": 3}, {"Host": "b", "Score": 10}], [("a", 3), ("b", 10)]),
            ([{"host": "a", "score": 3}, {"host": "b"}], [("a", 3), ("b", 0)]),
            (None, []),
            ([], []),
        ],
    )
    def test_scores_of_an_extender_come_by_host(
        self, answer: object, scores: list[tuple[str, int]]
    ) -> None:
        """Scores come by host, in any case of letters."""
        with server.extender({"prioritize": answer}) as calls:
            assert client(calls).prioritize(POD, NODES) == scores
        assert [n["metadata"]["name"] for n in calls.requested[0][1]["Nodes"]["items"]] == [*"abc"]

    @pytest.mark.parametrize(
        "answer", [b"nonsense", [{"Host": "a", "Score": 2**63}], [{"Host": "a", "Score": 0.5}], 503]
    )
    def test_what_is_no_list_of_scores(self, answer: object) -> None:
        """A score that is not an int64 is rejected like any other invalid response."""
        with server.extender({"prioritize": answer}) as calls, pytest.raises(PluginError):
            client(calls).prioritize(POD, NODES)


class TestPreempt:
    """The verb preempt."""

    def test_victims_are_sent_whole(self) -> None:
        """Without a node cache victims are pods on their node; the response has UIDs."""
        answer = {"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "u1"}], "NumPDBViolations": 1}}}
        with server.extender({"preempt": answer}) as calls:
            left = client(calls).preempt(POD, VICTIMS)
        assert left == {"a": NamedVictims(("u1",), 1)}
        ((_, sent),) = calls.requested
        assert sent["NodeNameToMetaVictims"] is None
        victims = sent["NodeNameToVictims"]["a"]
        assert victims["NumPDBViolations"] == 1
        assert victims["Pods"][0]["metadata"]["name"] == "v"
        assert victims["Pods"][0]["spec"]["nodeName"] == "a"

    def test_uids_suffice_for_an_extender_with_a_node_cache(self) -> None:
        """With a node cache victims are UIDs in both directions."""
        with server.extender({"preempt": lambda sent: sent}) as calls:
            left = client(calls, node_cache_capable=True).preempt(POD, VICTIMS)
        assert left == {"a": NamedVictims(("u1",), 1)}
        assert calls.requested[0][1]["NodeNameToVictims"] is None

    def test_no_victims_at_all(self) -> None:
        """Null and missing victims are none."""
        with server.extender({"preempt": {"nodeNameToMetaVictims": {"a": None}}}) as calls:
            assert client(calls).preempt(POD, VICTIMS) == {"a": NamedVictims((), 0)}


class TestBind:
    """The verb bind."""

    def test_the_binding_request_names_pod_and_node(self) -> None:
        """The arguments name pod and node; an empty response means success."""
        with server.extender({"bind": {}}) as calls:
            client(calls).bind(POD, "b")
        expected = {"PodName": "p", "PodNamespace": "default", "PodUID": POD.uid, "Node": "b"}
        assert calls.requested == [("bind", expected)]

    @pytest.mark.parametrize(("answer", "words"), [({"Error": "taken"}, "^taken$"), (500, "500")])
    def test_an_extenders_own_error_is_the_error(self, answer: object, words: str) -> None:
        """The extender's own error, or its status, is the error."""
        with server.extender({"bind": answer}) as calls, pytest.raises(PluginError, match=words):
            client(calls).bind(POD, "b")


class TestConnections:
    """Connections are kept, and reopened after they were closed."""

    def test_one_connection_serves_many_calls(self) -> None:
        """Calls of all verbs use one connection, failed ones with a response included."""
        with server.extender({"bind": {}, "prioritize": [], "filter": 500}) as calls:
            one = client(calls)
            one.bind(POD, "a")
            one.prioritize(POD, NODES)
            with pytest.raises(PluginError):
                one.filter(POD, NODES)
            one.bind(POD, "b")
        assert len(calls.requested) == 4
        assert len(calls.connections) == 1

    def test_calls_side_by_side(self) -> None:
        """A call need not wait for another: each has a connection, which later calls reuse."""
        both = Barrier(2)

        def meet(_: object) -> object:
            both.wait(60)
            return {}

        with server.extender({"bind": meet, "filter": {"NodeNames": ["a"]}}) as calls:
            requested = client(calls, node_cache_capable=True)
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(lambda node: requested.bind(POD, node), ("a", "b")))
            requested.filter(POD, NODES)
        assert len(calls.connections) == 2

    def test_closed_during_a_call(self) -> None:
        """The call ends as usual, and leaves nothing open."""
        begun, over = Event(), Event()

        def wait(_: object) -> object:
            begun.set()
            over.wait(60)
            return {}

        with server.extender({"bind": wait}) as calls, ThreadPoolExecutor(1) as pool:
            requested = client(calls)
            call = pool.submit(requested.bind, POD, "a")
            assert begun.wait(60)
            requested.close()
            over.set()
            call.result()
            requested.bind(POD, "a")
        assert len(calls.connections) == 2

    def test_a_call_after_a_closed_connection(self) -> None:
        """After the server closes a connection, the next call opens another."""
        answers = iter([server.CLOSE, {}, {}])
        with server.extender({"bind": lambda _: next(answers)}) as calls:
            one = client(calls)
            with pytest.raises(PluginError, match="EOF"):
                one.bind(POD, "a")
            one.bind(POD, "a")
            one.bind(POD, "b")
        assert len(calls.requested) == 3
        assert len(calls.connections) == 2

    def test_a_node_that_changed_is_sent_anew(self) -> None:
        """Nodes are encoded once, and once more when they are another object."""
        with server.extender({"prioritize": []}) as calls:
            one = client(calls)
            for labels in ({"x": "1"}, {"x": "2"}):
                one.prioritize(POD, [make_node("a", labels=labels)])
        sent = [sent["Nodes"]["items"][0]["metadata"]["labels"] for _, sent in calls.requested]
        assert sent == [{"x": "1"}, {"x": "2"}]


class TestTls:
    """Extenders behind https."""

    @pytest.mark.parametrize(
        "settings",
        [
            {"tls": TlsSettings(ca_file=str(server.CERTIFICATE), server_name=server.SERVER_NAME)},
            {
                "tls": TlsSettings(
                    ca_data=server.CERTIFICATE.read_bytes(), server_name=server.SERVER_NAME
                )
            },
            {"tls": TlsSettings(insecure=True)},
            {"enable_https": True},
        ],
        ids=["caFile", "caData", "insecure", "enableHTTPS without roots"],
    )
    def test_a_trusted_server_is_called_over_one_connection(
        self, settings: dict[str, object]
    ) -> None:
        """A trusted server, or one that need not be, is called over one connection."""
        with server.extender({"bind": {}}, tls=True) as calls:
            one = client(calls, **settings)
            one.bind(POD, "a")
            one.bind(POD, "b")
        assert calls.verbs == ["bind", "bind"]

    @pytest.mark.parametrize(
        "settings",
        [
            {},
            {"tls": TlsSettings(ca_file=str(server.CERTIFICATE))},
            {"tls": TlsSettings(ca_file=str(server.CERTIFICATE), server_name="other.test")},
        ],
        ids=["the system's roots", "address not in the certificate", "another name"],
    )
    def test_a_server_that_is_not_trusted(self, settings: dict[str, object]) -> None:
        """An invalid certificate is an error, and nothing is sent."""
        with (
            server.extender({"bind": {}}, tls=True) as calls,
            pytest.raises(PluginError, match="failed to verify certificate"),
        ):
            client(calls, **settings).bind(POD, "a")
        assert not calls.requested

    @pytest.mark.parametrize("as_data", [False, True], ids=["files", "data"])
    def test_a_server_that_wants_a_client_certificate_gets_it(self, as_data: bool) -> None:
        """A server that requires a client certificate gets it."""
        pair = (
            TlsSettings(
                insecure=True,
                cert_data=server.CERTIFICATE.read_bytes(),
                key_data=server.KEY.read_bytes(),
            )
            if as_data
            else TlsSettings(
                insecure=True, cert_file=str(server.CERTIFICATE), key_file=str(server.KEY)
            )
        )
        with server.extender({"bind": {}}, tls=True, client_certificates=True) as calls:
            with pytest.raises(PluginError):
                client(calls, tls=TlsSettings(insecure=True)).bind(POD, "a")
            client(calls, tls=pair).bind(POD, "a")
        assert calls.verbs == ["bind"]

    def test_certificates_that_are_gone(self) -> None:
        """Settings are checked earlier; files that vanish after that raise OSError."""
        with pytest.raises(FileNotFoundError):
            HttpExtender(ExtenderSettings("https://x", tls=TlsSettings(ca_file="gone.pem")))
        with pytest.raises(ssl.SSLError):
            HttpExtender(ExtenderSettings("https://x", tls=TlsSettings(ca_data=b"x")))


@pytest.mark.parametrize(
    ("settings", "pod", "answer"),
    [
        ({}, make_pod("p"), True),
        ({"managed_resources": frozenset({"x.com/a"})}, make_pod("p", cpu="1"), False),
        ({"managed_resources": frozenset({"x.com/a"})}, make_pod(requests={"x.com/a": "0"}), True),
        (
            {"pod_selector": label_selector(LabelSelector(match_labels={"gpu": "yes"}))},
            make_pod("p", labels={"gpu": "no"}),
            False,
        ),
        (
            {"pod_selector": label_selector(LabelSelector(match_labels={"gpu": "yes"}))},
            make_pod("p", labels={"gpu": "yes"}),
            True,
        ),
        (
            {
                "pod_selector": label_selector(LabelSelector()),
                "managed_resources": frozenset({"x.com/a"}),
            },
            make_pod("p"),
            False,
        ),
    ],
)
def test_an_extender_is_called_for_the_pods_it_manages(settings, pod, answer: bool) -> None:  # type: ignore[no-untyped-def]  # a table
    """A pod must be selected by its labels, and a container request a managed resource."""
    interested: Callable[[PodInfo], bool] = HttpExtender(
        ExtenderSettings("http://x", **settings)
    ).interested
    assert interested(PodInfo.of(pod)) is answer
