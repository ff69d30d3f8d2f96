"""Runs ours and the peer in turns, and puts what comes out into the results."""
import subprocess
from contextlib import ExitStack
from statistics import median

from . import clients, machine, models, peer, runs, servers
from .cases import OVERHEAD, START, Case, LimitsCase, ServerCase
from .problem import Problem
from .results import make_row

BUSY_SHARE_MAX = 0.1
ADDS_TURNS = 3  # for each pair that is asked for: the share is small, and each turn short


def commit():
    """What git calls the checkout; "" where there is none."""
    found = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True,
                           text=True)
    return found.stdout.strip()


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
            self._measure(case)
            self.results.save()
        return self.ids

    def _measure(self, case):
        if isinstance(case, LimitsCase):
            self._limits()
        elif isinstance(case, Case):
            self._engine(case)
        elif isinstance(case, ServerCase):
            self._servers(case)
        elif case == START:
            self._start(case)
        elif case == OVERHEAD:
            self._server_adds(case)

    def _describe(self):
        data = self.results.data
        if self.results.set_machine(machine.describe()):
            peer.say("the earlier results are of another machine: they are dropped")
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

    def _limits(self):
        build = self.options.build
        runs.output_of(["cmake", "--build", build, "--target", "machine_limits"])
        names = ["default"] if self.options.quick else ["default", "mlx", "1b"]
        sizes = [models.costs(models.model_path(name))["weight_bytes"] for name in names]
        found = machine.limits(build / "bench/machine_limits", self.threads, sizes)
        self.results.data["limits"] = found
        peer.say("reading " + ", ".join(f"{read['bytes'] / 1e6:.0f} MB {read['gbps']:.1f} GB/s"
                                        for read in found["read"]))
        peer.say("dot products " + ", ".join(f"{name} {value:.2f} T/s"
                                             for name, value in found["dot"].items()))

    def _put(self, *what, **more):
        row = make_row(*what, isa=self.options.isa, threads=self.threads, commit=commit(), **more)
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
                if case.rows:
                    shares[precision].append(found["decode"][0]["engine_share"])
            if self.peer:
                theirs.append(runs.peer_speed(self.peer, peer_path, case, self.threads))
            self._progress(case, pair, ours, theirs)
        for precision in self.precisions:
            more = {"engine_share": median(shares[precision])} if case.rows else {}
            self._put(case.model, case.name, precision, "speed", "tok/s", ours[precision], theirs,
                      work=case.work(models.costs(path)), **more)

    def _progress(self, case, pair, ours, theirs):
        said = [f"{name} {samples[-1]:.1f}" for name, samples in ours.items()]
        said += [f"peer {theirs[-1]:.1f}"] if theirs else []
        peer.say(f"{case.key} {pair + 1}/{self.options.pairs}: {', '.join(said)} tok/s")

    # --- Servers ---

    def _our_server(self, precision, slots):
        path = models.model_path("default")
        return servers.Server(*servers.our_server(self.binary, path, precision, self.threads,
                                                  slots, self.options.isa))

    def _peer_server(self, slots, context):
        path = models.model_path("default")
        return servers.Server(*servers.peer_server(self.peer, path, self.threads, slots, context))

    def _servers(self, case):
        """All servers stay up, idle but for the one whose turn it is."""
        with ExitStack() as stack:
            sides = {name: stack.enter_context(self._our_server(name, case.concurrency))
                     for name in self.precisions}
            if self.peer:
                sides["peer"] = stack.enter_context(
                    self._peer_server(case.concurrency, case.prompt + case.gen + 16))
            for server in sides.values():
                servers.warm_up(server, case)
            found = {name: [] for name in sides}
            for pair in range(self.options.pairs):
                for name, server in sides.items():
                    found[name].append(servers.measure(server, case, pair))
                self._progress(case, pair, {name: [run["speed"] for run in runs_]
                                            for name, runs_ in found.items()}, [])
        for precision in self.precisions:
            for metric, unit in servers.METRICS.items():
                self._put(case.model, case.name, precision, metric, unit,
                          [run[metric] for run in found[precision]],
                          [run[metric] for run in found.get("peer", [])],
                          concurrency=case.concurrency)

    def _start(self, case):
        """From the start of the process to its first answer, and what it then holds in memory."""
        found = {name: [] for name in [*self.precisions, *(["peer"] if self.peer else [])]}
        for pair in range(self.options.pairs):
            for name, runs_ in found.items():
                server = (self._peer_server(16, 256) if name == "peer"
                          else self._our_server(name, 16))
                with server:
                    runs_.append((server.start_s, server.resident_mib()))
            peer.say(f"{case.key} {pair + 1}/{self.options.pairs}: " + ", ".join(
                f"{name} {runs_[-1][0]:.2f} s" for name, runs_ in found.items()))
        for precision in self.precisions:
            for place, (metric, unit) in enumerate({"first_answer": "s",
                                                    "resident": "MiB"}.items()):
                self._put(case.model, case.name, precision, metric, unit,
                          [run[place] for run in found[precision]],
                          [run[place] for run in found.get("peer", [])])

    def _server_adds(self, case):
        """Time that a token takes longer at the client than in the engine alone, as a share."""
        quick = self.options.quick
        served = ServerCase(case.model, 1, *((16, 8) if quick else (128, 64)))
        alone = Case(case.model, case.name, rows=1, gen=served.gen, depth=served.prompt)
        path = models.model_path(case.model)
        for precision in self.precisions:
            added = []
            with self._our_server(precision, 1) as server:
                servers.warm_up(server, served)
                turns = self.options.pairs * (1 if quick else ADDS_TURNS)
                for pair in range(turns):
                    answers = clients.ask_all(server.port, servers.prompts_of(served, pair),
                                              served.gen, 1)
                    at_client = median(answer.decode_speed for answer in answers)
                    engine = runs.our_speed(runs.ours(
                        self.binary, path, alone, precision, self.threads, self.options.isa), alone)
                    added.append(engine / at_client - 1)
                    peer.say(f"{case.key} {pair + 1}/{turns}: {precision} "
                             f"{at_client:.1f} tok/s served, {engine:.1f} in the engine")
            self._put(case.model, case.name, precision, "added", "share", added, [])
