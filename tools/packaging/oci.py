# SPDX-License-Identifier: Apache-2.0
"""A tree as a container image: an archive of the OCI image layout (image-spec 1.1) with one uncompressed layer, which podman, skopeo and other tools of its kind load.

The same tree, times and labels give the same bytes: names are sorted, JSON is written with sorted keys, every time is the one that is given.
"""
import hashlib
import io
import json
import tarfile

from packages import file_digest

LAYOUT = {"imageLayoutVersion": "1.0.0"}
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"


def as_bytes(document):
    return (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()


def descriptor(kind, digest, size, **more):
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": size, **more}


def described(kind, content, **more):
    return descriptor(kind, hashlib.sha256(content).hexdigest(), len(content), **more)


def config_of(layer, created, volume, command, labels):
    """The configuration of a container: it starts the sealed program, whose results go into the volume."""
    return {
        "created": created,
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": ["/bin/bascule"], "Cmd": [command], "WorkingDir": "/", "Volumes": {volume: {}}, "Labels": labels},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer}"]},
        "history": [{"created": created, "created_by": "tools/packaging/make_image"}],
    }


def write_image(layer, target, name, created, seconds, volume, command, labels):
    """layer: the tree's tar, without device nodes. name: as `podman load` tags the image, NAME:VERSION. volume: the folder of results in the tree. command: of bascule."""
    digest = file_digest(layer)
    config = as_bytes(config_of(digest, created, volume, command, labels))
    manifest = as_bytes({"schemaVersion": 2, "mediaType": MANIFEST, "config": described(CONFIG, config), "layers": [descriptor(LAYER, digest, layer.stat().st_size)],
                         "annotations": {key: value for key, value in labels.items() if key.startswith("org.opencontainers.")}})
    index = as_bytes({"schemaVersion": 2, "mediaType": INDEX,
                      "manifests": [described(MANIFEST, manifest, platform={"architecture": "amd64", "os": "linux"},
                                              annotations={"org.opencontainers.image.ref.name": name})]})
    small = {"index.json": index, "oci-layout": as_bytes(LAYOUT), **{f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}": blob for blob in (config, manifest)}}
    place = f"blobs/sha256/{digest}"
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as tar:
        for entry_name in sorted(["blobs", "blobs/sha256", place, *small]):
            entry = tarfile.TarInfo(entry_name)
            entry.mtime, entry.mode = seconds, 0o644
            if entry_name in ("blobs", "blobs/sha256"):
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(entry)
            elif entry_name == place:
                entry.size = layer.stat().st_size
                with layer.open("rb") as content:
                    tar.addfile(entry, content)
            else:
                entry.size = len(small[entry_name])
                tar.addfile(entry, io.BytesIO(small[entry_name]))
