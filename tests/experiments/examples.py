"""A tiny experiment, and what the tests change of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

PODS = "name,cpu,seconds\n" + "".join(f"p{i},{(1, 2, 3, 5)[i % 4]},{60 + i}\n" for i in range(16))

TINY = """\
apiVersion: policysched.dev/v1alpha1
kind: Experiment
metadata: {name: tiny}
spec:
  cluster: {generate: ["4*cpu=8,memory=32Gi"]}
  workload:
    rows:
      file: pods.csv
      pod:
        metadata: {name: "${row.name}", namespace: default}
        spec: {containers: [{name: c, resources: {requests: {cpu: "${row.cpu}"}}}]}
    arrivals: {order: Shuffled}
  variants:
  - name: spread
  - name: packed
    params: {NodeResourcesFit: {scoringStrategy: {type: MostAllocated}}}
    weights: {NodeResourcesFit: 5}
  seeds: [1, 2]
  curve: {pods: true, step: 4}
  measures:
  - {name: cpu, allocation: cpu, better: Higher}
  - {name: unplaced, pods: Unplaced, better: Lower}
"""


def tiny(folder: Path, changes: Mapping[str, Any] | None = None, pods: str = PODS) -> str:
    """Write the experiment with other values in its spec, and return its file.

    A key may name what is inside: ``workload.arrivals``; None takes it out.
    """
    folder.mkdir(parents=True, exist_ok=True)
    document = yaml.safe_load(TINY)
    for key, value in (changes or {}).items():
        *path, last = key.split(".")
        inside = document["spec"]
        for step in path:
            inside = inside[step]
        if value is None:
            inside.pop(last, None)
        else:
            inside[last] = value
    (folder / "pods.csv").write_text(pods, encoding="utf-8")
    file = folder / "experiment.yaml"
    text = TINY if not changes else yaml.safe_dump(document, sort_keys=False)
    file.write_text(text, encoding="utf-8")
    return str(file)
