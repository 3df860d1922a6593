"""A Kubernetes cluster over HTTP: kubeconfig, requests, mirrors, writes, leases."""
