"""docs/metrics.md, made from the registry: `python -m groupwise.track.metrics_page > docs/metrics.md`."""

from groupwise.track.metrics import METRICS

HEAD = """\
# Metrics

Made from `src/groupwise/track/metrics.py`; do not edit.

`metrics.jsonl` has one line per step. Only the fields `time/…` depend on the speed of the machine. `reward/`, `groups/`
and `completion/` describe everything that was sampled in the step, before any group was filtered out. `policy/` and
`engine/` describe the completions that can change the weights: those with an advantage, or all of them with a KL
penalty, an entropy bonus or an entropy target; never those that are masked as truncated or whose reward failed.

**merge** says how the parts of a step (micro-batches, updates, processes) become one number: their sum, their mean
weighted by tokens, completions or groups, their largest or smallest. *derived* metrics are computed from merged ones.
*once*: there is one value for the whole step. A field is missing where it is not defined, for example `policy/kl_loss`
without a KL penalty.

Metrics with a star are also written for each domain, as `domain/DOMAIN/…`: those of rewards, groups and completions
where the problems come from several domains, those of `policy/` where the section `domains` is used.

| metric | unit | merge | meaning |
|---|---|---|---|
"""


def page() -> str:
    """The page as Markdown."""
    names = (f"`{metric.name}` \\*" if metric.by_domain else f"`{metric.name}`" for metric in METRICS)
    rows = (f"| {name} | {m.unit} | {m.merge} | {m.meaning} |\n" for name, m in zip(names, METRICS, strict=True))
    return HEAD + "".join(rows)


if __name__ == "__main__":
    print(page(), end="")
