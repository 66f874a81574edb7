"""Safe loading of checkpoints, and the options that they record.

Each file but ``recorded_options`` repairs one defect of fairseq or torch, as in :mod:`fairseq_syntax.compat`:

| file | what is wrong | applied |
| --- | --- | --- |
| literals | options are run as Python | on import |
| loading | a checkpoint is loaded without a check of what it records | on import |
| recorded_files | fairseq opens files that a checkpoint names | as a checkpoint is read |
| safe_loading | torch ≥ 2.6 cannot read fairseq's checkpoints | on import; all commands read by it |
| size_limit | a small checkpoint may record a model of any size | as models are built from checkpoints |
"""


def install() -> None:
    """Make loading safe, for the whole process. A second call would apply it twice."""
    from fairseq_syntax.checkpoints import literals, loading, safe_loading  # after fairseq

    safe_loading.allow_safe_loading()
    literals.disable_eval()
    loading.hook_checkpoint_loading()
