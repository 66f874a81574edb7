"""Safe loading of checkpoints, and the options that they record.

Each file repairs one defect of fairseq or torch, as those of :mod:`fairseq_syntax.compat` do:

| file | what is wrong | applied |
| --- | --- | --- |
| literals | options are run as Python | on import |
| loading | nobody is asked before a checkpoint is loaded | on import, with what models ask |
| recorded_files | fairseq opens what a checkpoint names | as a checkpoint is read |
| safe_loading | torch ≥ 2.6 cannot read fairseq's checkpoints | on import; all commands read by it |
| size_limit | a small checkpoint may be of a model without end | as models are built of checkpoints |
"""


def install() -> None:
    """Makes loading safe, for the whole process. A second call would do it twice."""
    from fairseq_syntax.checkpoints import literals, loading, recorded_options, safe_loading  # after fairseq

    safe_loading.allow_safe_loading()
    literals.disable_eval()
    loading.hook_checkpoint_loading(
        look=recorded_options.read_checkpoint, before_resuming=recorded_options.check_resumption
    )
