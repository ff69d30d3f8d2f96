"""The table at the end of a run, and the generated tables of docs/performance.md."""
from . import cases
from .problem import Problem

BEGIN, END = "<!-- figures: written by the benchmark -->", "<!-- end of figures -->"
HEAD = ("", "unit", "ours", "peer", "ratio", "pairs", "target", "of limit", "peer's")
METRICS = {"speed": "", "first_answer": "first answer", "resident": "resident memory",
           "ttft_median": "first token, median", "ttft_p95": "first token, p95",
           "gap_p50": "between tokens, p50", "gap_p99": "between tokens, p99",
           "added": "time the server adds"}


def figure(value, unit):
    if value is None:
        return ""
    if unit == "share":
        return f"{value:.1%}"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def peer_counts(data, row):
    """Whether the peer was built for all that it may use."""
    return not data["peers"].get(row.get("isa") or "native", {}).get("missing")


def target_text(data, row):
    """"1.5 met", "1.5 missed", or "" where no target is set or the peer does not count."""
    amx = "amx_int8" in data["machine"].get("flags", [])
    wanted = cases.target(row, amx)
    if wanted is None or not row["ratio"]:
        return ""
    if not peer_counts(data, row):
        return "peer lacks instructions"
    ratio = row["ratio"]["median"]
    met = ratio <= wanted if row["better"] == "lower" else ratio >= wanted
    return f"{wanted:g} {'met' if met else 'missed'}"


def cells(data, row):
    """The columns of HEAD but for the first."""
    unit, ratio, limit = row["unit"], row["ratio"], row.get("limit")
    return [unit, figure(row["ours"]["median"], unit),
            figure(row["peer"]["median"], unit) if row["peer"] else "",
            f"{ratio['median']:.2f}" if ratio else "",
            f"{ratio['count']}: {ratio['min']:.2f} to {ratio['max']:.2f}" if ratio else
            f"{row['ours']['count']}: {figure(row['ours']['min'], unit)} to "
            f"{figure(row['ours']['max'], unit)}",
            target_text(data, row),
            f"{limit['ours']:.0%} {limit['name']}" if limit else "",
            f"{limit['peer']:.0%}" if limit and limit["peer"] else ""]


def absolute(data):
    """Lines (what, measured, target, met or missed) for targets that are no ratio to the peer."""
    lines = []

    def add(row, what, value, wanted, met):
        lines.append((f"{row['model']}, {row['precision']}: {what}", f"{value:.1%}", wanted,
                      "met" if met else "missed"))

    for row in order(data):
        if row.get("isa"):
            continue
        limit, share = row.get("limit"), row.get("engine_share")
        if row["case"] == "decode-depth-0" and limit and limit["name"] == "read bandwidth":
            add(row, "read bandwidth used when decoding one row", limit["ours"], "70% or more",
                limit["ours"] >= cases.BANDWIDTH_SHARE_MIN)
        if row["case"] in ("decode-depth-0", "rows-16") and share is not None:
            add(row, f"engine outside the forward pass, {row['case']}", share, "below 5%",
                share < cases.ENGINE_SHARE_MAX)
        if row["metric"] == "added":
            add(row, "time that the server adds to a token", row["ours"]["median"], "below 3%",
                row["ours"]["median"] < cases.SERVER_ADDS_MAX)
    return lines


def table(data, ids):
    """A text table of some rows of the results."""
    lines = [HEAD, *[(id, *cells(data, data["rows"][id])) for id in ids]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    return "\n".join("  ".join(
        text.ljust(width) if column < 2 else text.rjust(width)
        for column, (text, width) in enumerate(zip(line, widths))).rstrip() for line in lines)


# --- The page --------------------------------------------------------------------------------


def markdown_table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def order(data):
    """Rows in the order in which a whole run measures them."""
    places = {(case.model, case.name): place for place, case in enumerate(cases.ALL_CASES)
              if not isinstance(case, cases.LimitsCase)}
    known = [row for row in data["rows"].values() if (row["model"], row["case"]) in places]
    return sorted(known, key=lambda row: (places[row["model"], row["case"]], row.get("isa", "")))


def label(row):
    metric = METRICS[row["metric"]]
    name = row["case"] + (f", {metric}" if metric else "")
    return f"{name} ({row['isa']})" if row.get("isa") else name


def section(data, title, rows):
    lines = [(label(row), row["precision"], *cells(data, row)) for row in rows]
    return f"### {title}\n\n" + markdown_table(("figure", "precision", *HEAD[1:]), lines)


def machine_text(data):
    machine, peers = data["machine"], data["peers"]
    caches = ", ".join(f"{name} {size}" for name, size in machine["caches"].items())
    lines = [f"- {machine['cpu']}, {machine['cores']} cores, {caches}, "
             f"{machine['memory_bytes'] / 2**30:.0f} GiB; {' '.join(machine['flags'])}.",
             f"- {data['tandem']['version']}, {data['tandem']['threads']} threads for both."]
    if commits := sorted({row["commit"] for row in data["rows"].values() if row.get("commit")}):
        lines.append(f"- Measured at {', '.join(commits)}.")
    for name, info in peers.items():
        lines.append(f"- Peer, {name}: {info['version']}, {info['compiler']}; "
                     f"{info['system_info']}.")
    return "\n".join(lines)


def limits_table(data):
    limits = data["limits"]
    rows = [(f"reading {read['bytes'] / 1e6:,.0f} MB", f"{read['gbps']:.1f} GB/s")
            for read in limits["read"]]
    rows += [(f"dot products, {name.replace('_', ' ')}", f"{value:.2f} T/s")
             for name, value in limits["dot"].items()]
    return "### Limits of the machine\n\n" + markdown_table(("limit", "measured"), rows)


def markdown(data):
    """The generated part of docs/performance.md."""
    rows = order(data)

    def pick(test):
        return [row for row in rows if test(row)]

    served = ("server-", "start")
    parts = [machine_text(data)] + ([limits_table(data)] if data["limits"] else [])
    for title, test in (
            ("SmolLM2-135M Q4_1", lambda row: row["model"] == "default"
             and not row["case"].startswith(served) and not row.get("isa")),
            ("SmolLM2-135M in MLX's 4-bit form, the peer on the Q4_1 file",
             lambda row: row["model"] == "mlx" and not row.get("isa")),
            ("1B shape, random weights, Q4_0", lambda row: row["model"] == "1b"
             and not row.get("isa")),
            ("Server beside server", lambda row: row["case"].startswith(served)
             and not row.get("isa")),
            ("Without the higher instruction sets", lambda row: bool(row.get("isa")))):
        if chosen := pick(test):
            parts.append(section(data, title, chosen))
    if found := absolute(data):
        parts.append("### Targets beside the peer's figures\n\n"
                     + markdown_table(("what", "measured", "target", ""), found))
    return "\n\n".join(parts)


def rewrite(page, data):
    """Puts the tables between the two marks of the page."""
    text = page.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise Problem(f"{page} lacks the lines {BEGIN!r} and {END!r}")
    if not data["rows"]:
        raise Problem("the results file holds no figures yet: run the benchmark first")
    page.write_text(f"{before}{BEGIN}\n\n{markdown(data)}\n\n{END}{after}")
