"""Adds up the closing lines of cargo test, of pytest and of scripts that end as pytest does, in a log, as
`N passed, N failed, N skipped`.

Exits with 1 when a test failed or none ran.
"""

import re
import sys
from collections import Counter
from pathlib import Path

# The words of cargo and pytest, and the three words under which they are counted.
OUTCOMES = {
    "passed": "passed",
    "failed": "failed",
    "error": "failed",
    "errors": "failed",
    "ignored": "skipped",
    "skipped": "skipped",
    "xfailed": "skipped",
    "xpassed": "passed",
}
CARGO = re.compile(r"^test result: \w+\. (.*?); \d+ measured", re.MULTILINE)
PYTEST = re.compile(r"^(?:=+ )?(\d+ [a-z]+(?:, \d+ [a-z]+)*) in [\d.]+s", re.MULTILINE)


def count(log: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for closing in [*CARGO.findall(log), *PYTEST.findall(log)]:
        for number, word in re.findall(r"(\d+) (\w+)", closing):
            if word in OUTCOMES:
                counts[OUTCOMES[word]] += int(number)
    return counts


if __name__ == "__main__":
    counts = count(Path(sys.argv[1]).read_text(errors="replace"))
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    sys.exit(counts["failed"] > 0 or counts["passed"] == 0)
