"""Options that several flags form: the embedded API, endpoints, kubeconfig, kube-scheduler flags.

Each module parses one group of flags and returns a typed value; problems are usage errors.
Printing is in output/.
"""
