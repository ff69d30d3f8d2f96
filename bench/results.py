"""The results file: one row for each figure, with the samples behind it.

A row is known by its id (model/case/precision/metric, and the forced instruction set); a new run
replaces the rows it measures and leaves the others, so that the whole can be measured in parts.
"""
import json
import os
from pathlib import Path

from .machine import limit_of
from .stats import paired_ratio, summary

SCHEMA = 1
UNITS = {"tok/s": "higher", "s": "lower", "ms": "lower", "MiB": "lower", "share": "lower"}


def row_id(model, case, precision, metric, isa=""):
    return "/".join([model, case, precision, metric] + ([isa] if isa else []))


def make_row(model, case, precision, metric, unit, ours, peer, isa="", **more):
    """A row of results; `ours` and `peer` are samples measured in turns, `peer` may be empty."""
    return {"id": row_id(model, case, precision, metric, isa), "model": model, "case": case,
            "precision": precision, "metric": metric, "unit": unit, "better": UNITS[unit],
            **({"isa": isa} if isa else {}), **more,
            "samples": {"ours": list(ours), "peer": list(peer)},
            "ours": summary(ours), "peer": summary(peer), "ratio": paired_ratio(ours, peer)}


def with_earlier(row, earlier):
    """The row with the samples of an earlier run before its own."""
    if not earlier:
        return row
    samples = {side: earlier["samples"][side] + row["samples"][side] for side in ("ours", "peer")}
    return {**row, "samples": samples, "ours": summary(samples["ours"]),
            "peer": summary(samples["peer"]),
            "ratio": paired_ratio(samples["ours"], samples["peer"])}


class Results:
    def __init__(self, path, append=False):
        self.path, self.append = Path(path), append
        found = json.loads(self.path.read_text()) if self.path.exists() else {}
        if found.get("schema") != SCHEMA:
            found = {}
        self.data = {"schema": SCHEMA, "machine": {}, "tandem": {}, "peers": {}, "limits": {},
                     "rows": {}, **found}

    def set_machine(self, machine):
        """Drops what another machine measured, and tells whether there was anything."""
        dropped = bool(self.data["rows"]) and self.data["machine"] != machine
        if dropped:
            self.data.update(peers={}, limits={}, rows={})
        self.data["machine"] = machine
        return dropped

    def put(self, row):
        earlier = self.data["rows"].get(row["id"]) if self.append else None
        self.data["rows"][row["id"]] = with_earlier(row, earlier)

    def rows(self):
        return list(self.data["rows"].values())

    def save(self):
        for row in self.data["rows"].values():
            row["limit"] = limit_of(row, self.data["limits"])
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        partial.write_text(json.dumps(self.data, indent=1) + "\n")
        os.replace(partial, self.path)
