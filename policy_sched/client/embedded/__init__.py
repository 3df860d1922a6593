"""A Kubernetes cluster inside this process: API objects, kubelets and controllers, no network."""
