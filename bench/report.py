"""The table at the end of a run, and the generated tables of docs/performance.md."""


def figure(value, unit):
    if value is None:
        return ""
    if unit == "share":
        return f"{value:.1%}"
    if unit == "tok/s" and value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 200 else f"{value:.3g}" if value >= 0.01 else f"{value:.2g}"


def table(data, ids):
    """A text table of some rows of the results."""
    lines = [("", "unit", "ours", "peer", "ratio", "pairs from, to")]
    for id in ids:
        row = data["rows"][id]
        ratio = row["ratio"]
        lines.append((
            id, row["unit"], figure(row["ours"]["median"], row["unit"]),
            figure(row["peer"]["median"], row["unit"]) if row["peer"] else "",
            f"{ratio['median']:.2f}" if ratio else "",
            f"{ratio['min']:.2f}, {ratio['max']:.2f}" if ratio else ""))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join("  ".join(
        text.ljust(width) if column < 2 else text.rjust(width)
        for column, (text, width) in enumerate(zip(line, widths))).rstrip() for line in lines)
