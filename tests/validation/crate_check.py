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
    """Print as JSON the issues of each severity, and the files that the library lists."""
    http.HttpRequester.get = context
    settings = services.ValidationSettings(
        rocrate_uri=directory, profile_identifier="ro-crate-1.1", requirement_severity=models.Severity.RECOMMENDED
    )
    issues = {}
    for issue in services.validate(settings).get_issues():
        issues.setdefault(issue.severity.name, []).append(issue.message)
    files = [] if "REQUIRED" in issues else [part.id for part in ROCrate(directory).root_dataset["hasPart"]]
    print(json.dumps({"issues": issues, "files": files}))


if __name__ == "__main__":
    main(sys.argv[1])
