"""The command: `python -m tools.bench NAME ... [--json FILE]`."""

from __future__ import annotations

import typer

from tools.bench import (
    bulk,
    commits,
    consolidation,
    encryption,
    file_store,
    forgetting,
    growth,
    memory,
    messages,
    places,
    prompt,
    recording,
    role_zero,
    sizes,
    stale,
    store,
    telemetry,
    tombstones,
    trust,
    vectors,
    web,
)
from tools.bench.adapters.command import adapters
from tools.bench.providers.command import providers
from tools.bench.retrieval import items
from tools.bench.retrieval.command import retrieval
from tools.bench.retrieval.signals import signals
from tools.bench.speed.command import speed

app = typer.Typer(
    help="Measure devmem on this machine, side by side with what it is compared to.", no_args_is_help=True
)
app.command("adapters")(adapters)
app.command("bulk")(bulk.command)
app.command("bytes")(sizes.command)
app.command("stale")(stale.command)
app.command("store")(store.command)
app.command("collections")(places.command)
app.command("commits")(commits.command)
app.command("consolidation")(consolidation.command)
app.command("encryption")(encryption.command)
app.command("file_store")(file_store.command)
app.command("forgetting")(forgetting.command)
app.command("growth")(growth.command)
app.command("items")(items.command)
app.command("memory")(memory.command)
app.command("messages")(messages.command)
app.command("prompt")(prompt.command)
app.command("providers")(providers)
app.command("recording")(recording.command)
app.command("role_zero")(role_zero.command)
app.command("retrieval")(retrieval)
app.command("signals")(signals)
app.command("speed")(speed)
app.command("telemetry")(telemetry.command)
app.command("tombstones")(tombstones.command)
app.command("trust")(trust.command)
app.command("vectors")(vectors.command)
app.command("web")(web.command)

if __name__ == "__main__":
    app()
