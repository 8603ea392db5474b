"""Duty: print what starts a fleet on Kubernetes. Refusal: nothing is started and no cluster is asked."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from importlib import metadata

from brickyard.errors import BadInputError
from brickyard.fleet import LEAST_RAY, cluster
from brickyard.fleet.nodes import STORE_BYTES
from brickyard.fleet.shells import filled

RETRIES = 3  # of a pod
QUANTITY = re.compile(r"[1-9][0-9]*(Mi|Gi|Ti|M|G|T)")
CLASS_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
IMAGE_USER = 1000  # Ray's images run as this user, who has to read the token and to write to the volume

VOLUME_MOUNT = "            - {name: brick, mountPath: /brick}\n"
CLAIM = """        - name: brick
          ephemeral:
            volumeClaimTemplate:
              spec:
                accessModes: [ReadWriteOnce]
@CLASS@                resources: {requests: {storage: @SIZE@}}
"""


@dataclass(frozen=True)
class PodVolume:
    """What each pod of a Job gets of its own, at `/brick`; it goes with the pod."""

    size: str
    storage_class: str | None

    def __post_init__(self) -> None:
        if not QUANTITY.fullmatch(self.size):
            raise BadInputError(f"--volume {self.size}: is no size as Kubernetes writes it, such as 100Gi")
        if self.storage_class is not None and not CLASS_NAME.fullmatch(self.storage_class):
            raise BadInputError(f"--storage-class {self.storage_class}: is no name of a storage class")

    def claim(self) -> str:
        own = f"                storageClassName: {self.storage_class}\n" if self.storage_class else ""
        return filled(CLAIM, CLASS=own, SIZE=self.size)


def _image() -> str:
    """Ray wants its own version and that of Python to be the same on all nodes; the head is like this host."""
    try:
        ray = metadata.version("ray")
    except metadata.PackageNotFoundError:
        ray = ".".join(map(str, (*LEAST_RAY, 0)))
    return f"rayproject/ray:{ray}-py{sys.version_info.major}{sys.version_info.minor}"


def manifest(count: int, address: str, volume: PodVolume | None = None) -> str:
    """Kubernetes: an indexed Job whose pods are hosts `k0` to `kN`, which join the head at an address.

    A pod that fails takes no other with it, and is made again some times, since a Ray node may fail to start on a busy
    host. `volume` is claimed once for each pod.
    """
    settings = "".join(f'            - {{name: {key}, value: "{value}"}}\n' for key, value in cluster.SETTINGS.items())
    token = cluster.token_file() if cluster.token_file().is_file() else "TOKEN_FILE"
    mounts, volumes = (VOLUME_MOUNT, volume.claim()) if volume else ("", "")
    return f"""# kubectl create secret generic brickyard-token --from-file=token={token}
apiVersion: batch/v1
kind: Job
metadata:
  name: brickyard-fleet
spec:
  completionMode: Indexed
  completions: {count}
  parallelism: {count}
  backoffLimitPerIndex: {RETRIES}
  template:
    spec:
      restartPolicy: Never
      automountServiceAccountToken: false
      securityContext: {{fsGroup: {IMAGE_USER}}}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: DoNotSchedule
          labelSelector: {{matchLabels: {{job-name: brickyard-fleet}}}}
      containers:
        - name: host
          image: {_image()}
          command: ["sh", "-c"]
          args:
            - >-
              exec ray start --block --address {address} --num-cpus 1 --include-log-monitor false
              --disable-usage-stats --object-store-memory {STORE_BYTES}
              --resources "{{\\"brickyard:k$JOB_COMPLETION_INDEX\\": 1}}"
          env:
            - {{name: RAY_AUTH_TOKEN_PATH, value: /token/token}}
{settings}          volumeMounts:
            - {{name: token, mountPath: /token, readOnly: true}}
            - {{name: memory, mountPath: /dev/shm}}
{mounts}      volumes:
        - name: token
          secret: {{secretName: brickyard-token, defaultMode: 0440}}
        - name: memory
          emptyDir: {{medium: Memory, sizeLimit: 256Mi}}
{volumes}"""
