# SPDX-License-Identifier: Apache-2.0
"""The bill of materials of a tree, as SPDX 2.3 in JSON: every file with digest, package and licence; packages with version and licence text."""
import dataclasses
import hashlib
import json
import re

OURS = "Apache-2.0"


def digests(path):
    sums = []
    for name in ("sha1", "sha256"):
        with path.open("rb") as content:
            sums.append({"algorithm": name.upper(), "checksumValue": hashlib.file_digest(content, name).hexdigest()})
    return sums


def spdx_id(text):
    return re.sub(r"[^A-Za-z0-9.-]", "-", text)


@dataclasses.dataclass
class Component:
    """A package, or what else a file may belong to. licence: an SPDX expression, or "" where `text` is the licence."""
    name: str
    version: str
    licence: str
    text: str
    origin: str
    is_linked_in: bool = False  # its code is a part of the program

    @property
    def spdx_id(self):
        return "SPDXRef-Package-" + spdx_id(self.name)

    @property
    def licence_id(self):
        return self.licence or "LicenseRef-" + spdx_id(self.name)


def verification_code(sha1s):
    """SPDX 2.3, 7.9: of the files that a package has in the tree."""
    return {"packageVerificationCodeValue": hashlib.sha1("".join(sorted(sha1s)).encode()).hexdigest()}


def bill(name, version, created, files, components):
    """files: (name in the tree, path, component), sorted; components: all of them, the image's own first. Each has a file."""
    document = {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": name,
        "creationInfo": {"created": created, "creators": [f"Tool: bascule-make_image-{version}"]},
        "documentDescribes": [components[0].spdx_id], "packages": [], "files": [], "relationships": [], "hasExtractedLicensingInfos": []}
    relate = lambda one, kind, other: document["relationships"].append({"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other})
    relate("SPDXRef-DOCUMENT", "DESCRIBES", components[0].spdx_id)
    whole, sha1s = hashlib.sha256(), {}
    for number, (place, path, component) in enumerate(files):
        sums = digests(path)
        whole.update(f"{sums[1]['checksumValue']}  {place}\n".encode())
        sha1s.setdefault(component.spdx_id, []).append(sums[0]["checksumValue"])
        document["files"].append({
            "SPDXID": f"SPDXRef-File-{number}", "fileName": f"./{place}", "checksums": sums, "licenseConcluded": component.licence_id,
            "licenseInfoInFiles": [component.licence_id], "copyrightText": "NOASSERTION"})
        relate(component.spdx_id, "CONTAINS", f"SPDXRef-File-{number}")
    for one in components:
        document["packages"].append({
            "SPDXID": one.spdx_id, "name": one.name, "versionInfo": one.version or "unknown", "downloadLocation": "NOASSERTION", "filesAnalyzed": True,
            "packageVerificationCode": verification_code(sha1s[one.spdx_id]), "licenseInfoFromFiles": [one.licence_id],
            "licenseConcluded": one.licence_id, "licenseDeclared": one.licence_id, "copyrightText": "NOASSERTION", "sourceInfo": one.origin})
        if not one.licence:
            document["hasExtractedLicensingInfos"].append({"licenseId": one.licence_id, "name": one.name, "extractedText": one.text})
        if one is not components[0]:
            relate(components[0].spdx_id, "STATIC_LINK" if one.is_linked_in else "CONTAINS", one.spdx_id)
    # The same tree has the same name, another tree another one.
    document["documentNamespace"] = f"https://spdx.org/spdxdocs/{spdx_id(name)}-{whole.hexdigest()}"
    return json.dumps(document, indent=1, sort_keys=True) + "\n"
