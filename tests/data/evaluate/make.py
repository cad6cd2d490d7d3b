"""Cut two small labelled sets out of larger ones: `python make.py FOLDER`, FOLDER holding kubedocs and toolbench_skills."""

import gzip
import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
SKILLS = "viking://agent/skills/toolbench"
CATEGORIES = (
    *("Devices", "Education", "Energy", "Food", "Gaming", "Jobs", "Location", "Logistics", "Medical", "Monitoring"),
    *("Movies", "Music", "Payments", "Science", "Search", "Translation", "Travel", "Weather"),
)
#: By name: the set that it is cut out of, what its URIs begin with, and how many characters of a text are kept.
PARTS = {
    "docs": ("kubedocs", ("viking://resources/docs/kueue",), 1500),
    "skills": ("toolbench_skills", tuple(f"{SKILLS}/{name}" for name in CATEGORIES), 400),
}


def read(path: Path) -> list[dict]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def write(path: Path, records: list[dict]) -> None:
    text = "".join(json.dumps(record, ensure_ascii=False, sort_keys=True) + "\n" for record in records)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def cut(source: Path, target: Path, roots: tuple[str, ...], n_chars: int) -> None:
    def is_in(uri: str) -> bool:
        return any(uri == root or uri.startswith(f"{root}/") for root in roots)

    def is_kept(uri: str) -> bool:
        return is_in(uri) or any(root.startswith(f"{uri}/") for root in roots)

    target.mkdir(exist_ok=True)
    leaves = [
        leaf | {"text": leaf["text"][:n_chars]} for leaf in read(source / "corpus.jsonl.gz") if is_in(leaf["uri"])
    ]
    write(target / "corpus.jsonl.gz", leaves)
    write(target / "dirs.jsonl.gz", [one for one in read(source / "dirs.jsonl.gz") if is_kept(one["uri"])])
    judgments: dict[str, list[str]] = {}
    for line in (source / "qrels.tsv").read_text(encoding="utf-8").splitlines():
        judgments.setdefault(line.split("\t")[0], []).append(line)
    kept = {query for query, lines in judgments.items() if all(is_in(line.split("\t")[1]) for line in lines)}
    queries = [query for query in read(source / "queries.jsonl.gz") if query["id"] in kept]
    write(target / "queries.jsonl.gz", queries)
    lines = [line for query in queries for line in judgments[query["id"]]]
    (target / "qrels.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{target.name}: {len(leaves)} files, {len(queries)} queries")  # noqa: T201 - what a script is for


if __name__ == "__main__":
    for name, (source, roots, n_chars) in PARTS.items():
        cut(Path(sys.argv[1]) / source, HERE / name, roots, n_chars)
