#!/usr/bin/env bash
# Makes or reuses one virtual environment, installs the package into it, and runs in it
#   bash run.sh quickstart [options]            the recipe quickstart
#   bash run.sh experiment RECIPE [options]     a recipe of examples/experiments, or a YAML file; --help
#   bash run.sh test [folders or files of tests, options of pytest]
# Settings, from the environment:
#   VENV    folder of the virtual environment (default: .venv)
#   PYTHON  interpreter for a new one, 3.11 or newer (default: python3)
#   TORCH   what pip installs as torch in a new one, such as torch==2.13.0 (default: torch)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
venv=${VENV:-.venv}

set_up() {
    if [ ! -x "$venv/bin/python" ]; then
        "${PYTHON:-python3}" -c 'import sys; sys.exit(sys.version_info < (3, 11) and
            f"Python 3.11 or newer is needed, {sys.executable} is {sys.version.split()[0]}; name another by PYTHON=")'
        "${PYTHON:-python3}" -m venv "$venv"
    fi
    if [ ! -e "$venv/.fairseq-is-built" ]; then
        echo "Installing into $venv: torch, fairseq (built from source, about a minute) and the other packages …"
        "$venv/bin/pip" install --quiet "${TORCH:-torch}" numpy cython setuptools wheel
        # In an environment of its own the build would fetch a second torch.
        "$venv/bin/pip" install --quiet --no-build-isolation fairseq-fixed
        touch "$venv/.fairseq-is-built"
    fi
    # An installation that is changed under programs at work would break them: only if there is something new.
    if [ ! -e "$venv/.is-installed" ] ||
        [ -n "$(find setup.py pyproject.toml fairseq_syntax preprocess -newer "$venv/.is-installed" -name '*.*' -print -quit)" ]; then
        rm -rf build  # pip would install modules from it that are no longer there
        "$venv/bin/pip" install --quiet --no-build-isolation ".[dev]"
        rm -rf build ./*.egg-info
        touch "$venv/.is-installed"
    fi
    PATH="$(cd "$venv/bin" && pwd):$PATH"
}

experiment() {
    # Those of the checkout, so that a recipe or script that is changed there counts.
    export PYTHONPATH="$PWD/examples/experiments${PYTHONPATH:+:$PYTHONPATH}"
    exec python -m syntax_experiments --work examples/experiments/output "$@"
}

case "${1:-}" in
    quickstart)
        set_up
        experiment quickstart "${@:2}"
        ;;
    experiment)
        set_up
        experiment "${@:2}"
        ;;
    test)
        set_up
        ruff check .
        ruff format --check .
        mypy
        exec pytest --numprocesses auto --maxprocesses 4 --dist worksteal "${@:2}"
        ;;
    *)
        sed -n '2,9s/^# \{0,1\}//p' "$0"
        exit 2
        ;;
esac
