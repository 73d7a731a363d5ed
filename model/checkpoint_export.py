"""A checkpoint of a run, which may still be going, as a Hugging Face folder."""

from __future__ import annotations

from pathlib import Path

from model.checkpoint.made_with import KEY, differences, made_with
from model.checkpoint.names import named, run_checkpoints
from model.encoder import Encoder
from model.export import export_masked_model, verify_model, verify_tokenizer
from model.export_stage import first_of_each_language, sample_rows, sample_texts
from model.heads import MaskedLanguageModel
from model.model_card import model_card
from model.plan import RunInputs, pretraining_job
from pipelines.core.config import ConfigError
from pipelines.core.manifest import read_json
from pipelines.core.store import Store


def export_checkpoint(inputs: RunInputs, step: int | None, folder: Path) -> tuple[int, float]:
    """Export a checkpoint of a run's pretraining, and prove that transformers loads the same model.

    Args:
        step: updates done; None: the last checkpoint that was written.
        folder: an empty one.

    Returns:
        The step, and the largest difference of logits.

    Raises:
        ConfigError: there is no such checkpoint (says which there are), or the run's configuration
            now describes another model.
        FileNotFoundError: the run has not come to pretraining.
        ExportMismatch: what transformers loads is another model.
    """
    name = f"{inputs.run}@{step}" if step is not None else last_checkpoint(inputs.store, inputs.run)
    found = named(inputs.store, name, setting="checkpoint", optimizer=False)
    job = pretraining_job(inputs)
    own = made_with(job.encoder, job.length, job.vocabulary_sha256)
    if wrong := differences(found.training.get(KEY, own), own):
        raise ConfigError(
            f"checkpoint {name}: the run's [encoder] or vocabulary was changed since: "
            f"{'; '.join(wrong)}"
        )
    model = MaskedLanguageModel(Encoder(job.encoder, job.rows, job.length))
    try:
        model.load_state_dict(found.model)
    except RuntimeError as error:
        raise ConfigError(
            f"checkpoint {name}: its tensors are not those of the run's [encoder] and vocabulary, "
            f"which were changed since: {str(error).splitlines()[-1].strip()}"
        ) from None
    card = model_card(
        inputs.run,
        job.model_dump(mode="json"),
        inputs.vocabulary,
        inputs.vocabulary_from,
        read_json(inputs.store, inputs.balance),
        {**found.training, "steps": found.step, "all_steps": job.step_plan.steps},
        sum(parameter.numel() for parameter in model.parameters()),
    )
    export_masked_model(folder, model, inputs.vocabulary, card)
    rows = sample_rows(inputs.store, [keys[0] for keys in (job.held_out or job.train).values()])
    largest = verify_model(folder, model, rows)
    texts = [output.path for output in first_of_each_language(inputs)]
    verify_tokenizer(folder, inputs.vocabulary, sample_texts(inputs.store, texts))
    return found.step, largest


def last_checkpoint(store: Store, run: str) -> str:
    """The name of the checkpoint of a run that was written last, RUN/UNIT@STEP.

    Raises:
        ConfigError: there is none.
    """
    found = [
        (manifest.written, step, folder.rpartition("/")[2])
        for folder, manifests in run_checkpoints(store, run).items()
        for step, manifest in manifests.items()
    ]
    if not found:
        raise ConfigError(f"run {run!r}, store {store.url}: no export, and no whole checkpoint")
    _, step, unit = max(found)
    return f"{run}/{unit}@{step}"
