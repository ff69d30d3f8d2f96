"""Medians, percentiles and ratios of interleaved measurements."""
from statistics import median


def percentile(values, percent):
    """The value below which `percent` of the values lie, between neighbours by weight."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values to take a percentile of")
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def summary(samples):
    """Median, least and most of the samples; None for none."""
    if not samples:
        return None
    return {"median": median(samples), "min": min(samples), "max": max(samples),
            "count": len(samples)}


def spread(samples):
    """How far the samples lie apart, as a share of their median."""
    middle = median(samples)
    return (max(samples) - min(samples)) / middle if middle else 0.0


def paired_ratio(ours, peer):
    """summary of ours/peer of each pair, which were measured one after the other."""
    return summary([a / b for a, b in zip(ours, peer) if b])
