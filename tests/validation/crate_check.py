"""Run by the Python of `build/release`: the crate library reads a crate, and the validator judges it.

The only page that the validator would fetch, the context, comes from the crate library's own copy.
"""

import json
import sys
from pathlib import Path

import requests
import rocrate
from rocrate.rocrate import ROCrate
from rocrate_validator import models, services
from rocrate_validator.utils import http

CONTEXT = (Path(rocrate.__file__).parent / "data" / "ro-crate.jsonld").read_bytes()


def context(self: object, url: str, *_: object, **__: object) -> requests.Response:
    """The answer to a request for the context."""
    if not url.endswith("/context"):
        raise requests.ConnectionError(url)
    answer = requests.Response()
    answer.status_code, answer.url, answer._content = 200, url, CONTEXT
    answer.headers["Content-Type"] = "application/ld+json"
    return answer


def main(directory: str) -> None:
    """Print as JSON what was read, and the issues of each severity."""
    http.HttpRequester.get = context
    issues = {}
    for profile in ("ro-crate-1.1", "process-run-crate"):
        settings = services.ValidationSettings(
            rocrate_uri=directory, profile_identifier=profile, requirement_severity=models.Severity.RECOMMENDED
        )
        for issue in services.validate(settings).get_issues():
            issues.setdefault(issue.severity.name, []).append(issue.message)
    try:
        crate = ROCrate(directory)
        run = crate.get("#run")
        read = {
            "name": crate.name,
            "files": sorted(part.id for part in crate.root_dataset["hasPart"]),
            "version": run["instrument"]["softwareVersion"],
            "values": {one.id: one["value"] for one in crate.get_by_type("PropertyValue")},
        }
    except Exception as error:  # whatever the library refuses with
        read = {"error": repr(error)}
    print(json.dumps({"issues": issues, "read": read}))


if __name__ == "__main__":
    main(sys.argv[1])
