#!/usr/bin/env bash
# Makes or reuses one virtual environment, installs the package into it, and runs in it
#   bash run.sh quickstart [options]            the recipe quickstart: translation
#   bash run.sh quickstart attachment [options] the recipe quickstart_attachment: classification
#   bash run.sh experiment RECIPE [options]     a recipe of examples/experiments, or a YAML file; --help
#   bash run.sh test [folders or files of tests, options of pytest]
#       --nightly  all tests; without it, those are left out that take long: the whole quickstart, all recipes, benchmarks, …
#       -m gpu     the tests of a GPU, which no other run sees
# Settings, from the environment:
#   VENV    folder of the virtual environment (default: .venv)
#   PYTHON  interpreter for a new one, 3.11 or newer (default: python3)
#   TORCH   what pip installs as torch in a new one, such as torch==2.13.0 (default: torch)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
venv=${VENV:-.venv}
unset PYTHONDONTWRITEBYTECODE  # what install leaves to Python

install() {  # without compiling: Python compiles the modules that it imports, which are few of all
    "$venv/bin/pip" install --quiet --no-compile "$@"
}

set_up() {  # for the extras of the package that are named
    if [ ! -x "$venv/bin/python" ]; then
        "${PYTHON:-python3}" -c 'import sys; sys.exit(sys.version_info < (3, 11) and
            f"Python 3.11 or newer is needed, {sys.executable} is {sys.version.split()[0]}; name another by PYTHON=")'
        "${PYTHON:-python3}" -m venv "$venv"
    fi
    if [ ! -e "$venv/.fairseq-is-built" ]; then
        echo "Installing into $venv: torch and fairseq (built from source, about a minute) …"
        install "${TORCH:-torch}" numpy cython setuptools wheel
        # In an environment of its own the build would fetch a second torch. Symbols for debuggers take 2/5 of its time.
        CFLAGS="${CFLAGS:-} -g0" CXXFLAGS="${CXXFLAGS:-} -g0" install --no-build-isolation fairseq-fixed
        touch "$venv/.fairseq-is-built"
    fi
    # An installation that is changed while programs run would break them: only if there is something new.
    local installed="$venv/.is-installed" has="$venv/.has-$1"
    if [ ! -e "$installed" ] ||
        [ -n "$(find setup.py pyproject.toml fairseq_syntax preprocess examples/experiments/syntax_experiments \
            -newer "$installed" -name '*.*' ! -path '*/__pycache__/*' -print -quit)" ]; then
        echo "Installing into $venv: this package [$1] …"
        rm -rf build  # pip would install modules from it that are no longer there
        install --no-build-isolation ".[$1]"
        rm -rf build ./*.egg-info "$venv"/.has-*
        touch "$installed" "$has"
    elif [ ! -e "$has" ]; then
        echo "Installing into $venv: what this package needs for [$1] …"
        install "fairseq-syntax[$1]"  # the package itself stays as it is
        touch "$has"
    fi
    PATH="$(cd "$venv/bin" && pwd):$PATH"
}

experiment() {
    # The checkout's, so that a recipe or script that is changed there counts.
    export PYTHONPATH="$PWD/examples/experiments${PYTHONPATH:+:$PYTHONPATH}"
    exec python -m syntax_experiments --work examples/experiments/output "$@"
}

case "${1:-}" in
    quickstart)
        set_up experiments
        if [ "${2:-}" = attachment ]; then
            experiment quickstart_attachment "${@:3}"
        fi
        experiment quickstart "${@:2}"
        ;;
    experiment)
        set_up analysis,experiments,stanza
        experiment "${@:2}"
        ;;
    test)
        set_up dev
        ruff check .
        ruff format --check .
        mypy
        exec pytest --numprocesses auto --maxprocesses 4 --dist worksteal "${@:2}"
        ;;
    *)
        sed -n '2,12s/^# \{0,1\}//p' "$0"
        exit 2
        ;;
esac
