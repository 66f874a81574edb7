"""Repairs of fairseq and torch, one file a defect.

Each describes what is wrong, with a link, and the repair: fairseq is 0.12.2, main and fairseq-fixed 0.12.3, unless it
says otherwise. Each has a test in ``tests/unit/compat`` that fails once fairseq or torch is mended: then the file is
deleted, and its callers change.

| file | what is wrong | applied |
| --- | --- | --- |
| amp_unscaling | ``--amp`` divides gradients by the loss scale twice | on import |
| foreach_adam | Adam updates parameters one by one, which is slow on a GPU | on import |
| gradient_norm | ``--clip-norm`` breaks under ``--cpu`` beside a GPU; it is slow on one | on import |
| help | ``--help`` leaves out options of models and tasks | on import |
| interactive_end | fairseq-interactive always ends with status 0 | on import |
| missing_checkpoint | a ``--restore-file`` that is not there is ignored | on import |
| nan_detector | a training that diverges ends in StopIteration | on import |
| numpy2 | ``--num-batch-buckets``, ``--sample-break-mode eos`` break under numpy 2 | on import |
| rdrop | R-Drop repeats half of a batch | on import |
| remarks | a remark in front of every command | while fairseq is imported |
| valid_subsets | ``--valid-subset valid,valid1`` is refused | on import |
| validation_on_train | ``--valid-subset valid,train`` takes epochs from the training | on import |
| last_batch | the last batch of a set is dropped | by the dataset, as batches are made |
| resumption | a resumed training has other batches | by the task, as batches are made |
| upsampling | ``train``, ``train1`` do not train together | by the task, as a split is loaded |
| bfloat16 | ``--bf16`` means a TPU | by the task, at its start |
| cudnn_attention | cuDNN's attention gives NaN under masks | by the task, at its start |
| frozen_parameters | ``--fp16`` decays frozen parameters | by the task, at each step |
| stock_models | stock models refuse ``src_syntax`` in an ensemble | by the task, in generation |
| scores_of_processes | ``--report-mcc`` breaks with several processes | on import; by the task, as logs are joined |
| unknown_words | ``--replace-unk`` breaks | by the task, in generation |
"""


def install() -> None:
    """Apply the repairs of fairseq and torch themselves, for the whole process. A second call applies them twice."""
    # after fairseq
    from fairseq_syntax.compat import (
        amp_unscaling,
        foreach_adam,
        gradient_norm,
        help,
        interactive_end,
        missing_checkpoint,
        nan_detector,
        numpy2,
        rdrop,
        scores_of_processes,
        valid_subsets,
        validation_on_train,
    )

    help.list_all_options_in_help()
    rdrop.repeat_whole_batches()
    numpy2.keep_old_names()
    missing_checkpoint.refuse_missing()
    scores_of_processes.gather_without_a_gpu()
    interactive_end.install_exit_hooks()
    amp_unscaling.unscale_once()
    nan_detector.inspect_nested_outputs()
    valid_subsets.compare_names_of_sets()
    validation_on_train.iterate_apart()
    foreach_adam.step_at_once()
    gradient_norm.compute_at_once()
