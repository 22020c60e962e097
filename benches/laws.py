"""How often each law decides a plan, over the adversarial suite and the demo's programs on two devices.

Run: eqfuse bench laws [--keep]. `--keep` stores the table that `eqfuse laws` shows (rewrites/decided.json): do so
when the book has changed.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence

from eqfuse.benches.law_usage import decide
from eqfuse.rewrites import FAMILIES, OPT_IN
from eqfuse.show.law_usage import keep
from eqfuse.show.progress import progress


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="eqfuse bench laws", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--keep", action="store_true", help="store the table in rewrites/decided.json")
    options = parser.parse_args(arguments)
    table: dict[str, dict[str, tuple[str, ...]]] = {}
    with progress() as at:
        for program, circumstances, laws in decide():
            table.setdefault(program, {})[circumstances] = laws
            print(f"{program}, {circumstances}: {', '.join(laws) or 'no law needed'}", flush=True)
            at.ended(f"{program}, {circumstances}")
    counts = Counter(law for found in table.values() for law in {law for laws in found.values() for law in laws})
    print(f"\nprograms (of {len(table)}) whose plan rests on a law, on either device, under either numerics:")
    for law, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        print(f"{count:4} {law}")
    print("\nlaws that decided nothing here, candidates to drop:")
    for family, members in FAMILIES.items():
        idle = [law.name for law in members if law.name not in counts]
        print(f"  {family}, {len(idle)} of {len(members)}{' (opt-in)' if family in OPT_IN else ''}: {', '.join(idle)}")
    if options.keep:
        keep(table)


if __name__ == "__main__":
    main()
