"""Pictures of systems that have code of their own."""

from __future__ import annotations

from pathlib import Path

from small_recipe import plan_of
from steps_in import step_in

from syntax_experiments.steps import pictures


def test_a_model_is_opened_with_the_code_of_its_system(tmp_path, monkeypatch):
    (tmp_path / "own").mkdir()
    asked = 'systems: {gated: {options: {user-dir: "{here}/own"}}}\npictures: {of: [gated, stock], sentences: [1]}'
    target = plan_of(tmp_path, asked).pictures
    folder, commands = tmp_path / "made", []
    monkeypatch.setattr(pictures, "run", lambda *words, log: commands.append([*map(str, words)]))
    inputs = {name: Path(of.path) for name, of in target.inputs.items()}
    pictures.draw(step_in(folder, dict(target.settings), inputs=inputs, local=dict(target.local)))
    dumps = [words for words in commands if words[0] == "fairseq-syntax-dump"]
    assert [words[words.index("--user-dir") + 1] for words in dumps] == [str(tmp_path / "own"), "fairseq_syntax"]
