"""A Kubernetes control plane in one process, behind the client protocol.

store/ takes the place of etcd, admission/ of the admission chain, controllers/ of kube-controller-
manager, kubelet/ of kubelets, apiserver/ of kube-apiserver. `simulate` and `run --kubeconfig` do
not import it.
"""

from policy_sched.embedded.client import EmbeddedClient as EmbeddedClient
from policy_sched.embedded.cluster import EmbeddedCluster as EmbeddedCluster
from policy_sched.embedded.events import Occurrence as Occurrence
