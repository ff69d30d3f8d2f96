"""Runs ours and the peer in turns, and puts what comes out into the results."""
import subprocess
from pathlib import Path

from . import machine, models, peer, runs
from .cases import Case, ServerCase
from .problem import Problem
from .results import make_row

BUSY_SHARE_MAX = 0.1


class Bench:
    def __init__(self, options, results):
        self.options, self.results = options, results
        self.threads = options.threads or machine.physical_cores()
        self.binary = options.build / "tandem"
        self.precisions = [name for name in options.precision.split(",") if name]
        self.peer = None
        self.ids = []

    def run(self, wanted):
        """Measures these cases; gives the ids of their rows in the results."""
        if not self.binary.exists():
            raise Problem(f"{self.binary} is not there: `make build` makes it")
        self._describe()
        for case in wanted:
            if isinstance(case, Case):
                self._engine(case)
            self.results.save()
        return self.ids

    def _describe(self):
        data = self.results.data
        data["machine"] = machine.describe()
        version = subprocess.run([self.binary, "--version"], capture_output=True, text=True)
        data["tandem"] = {"version": version.stdout.strip(), "threads": self.threads}
        if not self.options.no_peer:
            self.peer = peer.get_peer(self.options.isa)
            info = peer.system_info(self.peer)
            info["missing"] = peer.missing_features(info["features"], machine.cpu_flags(),
                                                    self.options.isa)
            data["peers"][self.options.isa or "native"] = info
        busy = machine.busy_share()
        if busy > BUSY_SHARE_MAX:
            peer.say(f"other programs use {busy:.0%} of this machine now: figures may be low")

    def _put(self, *what, **more):
        row = make_row(*what, isa=self.options.isa, threads=self.threads, **more)
        self.results.put(row)
        self.ids.append(row["id"])

    def _engine(self, case):
        path = models.model_path(case.model)
        peer_path = models.model_path("default" if case.model == "mlx" else case.model)
        ours = {precision: [] for precision in self.precisions}
        shares = {precision: [] for precision in self.precisions}
        theirs = []
        for pair in range(self.options.pairs):
            for precision in self.precisions:
                found = runs.ours(self.binary, path, case, precision, self.threads,
                                  self.options.isa)
                ours[precision].append(runs.our_speed(found, case))
                shares[precision].append(found.get("engine_share"))
            if self.peer:
                theirs.append(runs.peer_speed(self.peer, peer_path, case, self.threads))
            self._progress(case, pair, ours, theirs)
        for precision in self.precisions:
            self._put(case.model, case.name, precision, "speed", "tok/s", ours[precision], theirs)

    def _progress(self, case, pair, ours, theirs):
        said = [f"{name} {samples[-1]:.1f}" for name, samples in ours.items()]
        said += [f"peer {theirs[-1]:.1f}"] if theirs else []
        peer.say(f"{case.key} {pair + 1}/{self.options.pairs}: {', '.join(said)} tok/s")
