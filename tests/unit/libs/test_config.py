"""Settings: precedence, sources, and errors that name the field and what would be right."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import click
import pytest
from annotated_types import Ge, Gt
from click.testing import CliRunner

from resurge_libs.config.flags import flags_of, settings_options
from resurge_libs.config.settings import Flag, Secret, ServiceSettings, UsageProblem, load, print_config


class Settings(ServiceSettings):
    SECTION: ClassVar[str] = "launcher"

    lease_ttl_s: Annotated[float, Gt(0), "How long a lease lasts."] = 5.0
    max_restarts: Annotated[int, Ge(0), Flag("--restarts"), "Restarts allowed."] = 3
    warm: Annotated[bool, "Fork workers."] = True
    signals: Annotated[tuple[str, ...], "Signals that are forwarded."] = ("SIGTERM",)
    on_lost_control: Annotated[Literal["continue", "stop"], "What to do."] = "continue"
    job_token: Annotated[str | None, Secret(), "The shared secret."] = None


def test_a_flag_beats_the_environment_beats_yaml_beats_the_default(tmp_path):
    file = tmp_path / "r.yaml"
    file.write_text("launcher:\n  lease_ttl_s: 1\n  max_restarts: 1\n  warm: false\n")
    environ = {"RESURGE_LAUNCHER__LEASE_TTL_S": "2", "RESURGE_LAUNCHER__MAX_RESTARTS": "2", "HOME": "/"}
    loaded = load(Settings, {"max_restarts": 7, "warm": None}, environ, file)
    settings = loaded.settings
    assert (settings.max_restarts, settings.lease_ttl_s, settings.warm) == (7, 2.0, False)
    assert settings.on_lost_control == "continue"
    assert loaded.sources["max_restarts"] == "flag --max-restarts"
    assert loaded.sources["lease_ttl_s"] == "RESURGE_LAUNCHER__LEASE_TTL_S"
    assert loaded.sources["warm"] == f"YAML {file}"
    assert loaded.sources["signals"] == "default"


def test_several_values_are_split_at_commas():
    loaded = load(Settings, {}, {"RESURGE_LAUNCHER__SIGNALS": "SIGUSR1, SIGTERM"})
    assert loaded.settings.signals == ("SIGUSR1", "SIGTERM")


@pytest.mark.parametrize(
    ("flags", "environ", "yaml", "message"),
    [
        (
            {"max_restarts": "many"},
            {},
            "",
            "launcher.max_restarts (from flag --max-restarts): Input should be a valid int",
        ),
        ({"lease_ttl_s": 0}, {}, "", "Input should be greater than 0, not 0"),
        ({}, {"RESURGE_LAUNCHER__LEASE_TTL": "1"}, "", "did you mean 'RESURGE_LAUNCHER__LEASE_TTL_S'?"),
        ({}, {"RESURGE_LAUNCHR__WARM": "1"}, "", "did you mean 'RESURGE_LAUNCHER'?"),
        ({}, {}, "launcher:\n  max_restart: 1\n", "no setting 'max_restart'; did you mean 'max_restarts'?"),
        ({}, {}, "luncher:\n  warm: true\n", "unknown section 'luncher'; did you mean 'launcher'?"),
        ({}, {}, "launcher: [1]\n", "section 'launcher' must be a mapping"),
        ({}, {}, "- a\n", "must hold sections"),
        ({}, {}, "launcher: {a: [\n", "is not YAML"),
        ({"on_lost_control": "wait"}, {}, "", "Input should be 'continue' or 'stop'"),
        ({"mx_restarts": 1}, {}, "", "did you mean 'max_restarts'?"),
    ],
)
def test_what_is_wrong_is_named_with_what_would_be_right(tmp_path, flags, environ, yaml, message):
    file = tmp_path / "r.yaml"
    file.write_text(yaml)
    with pytest.raises(UsageProblem) as refused:
        load(Settings, flags, environ, file, known_sections=["rendezvous"])
    assert message in str(refused.value)
    assert refused.value.exit_code == 2


def test_a_missing_file_is_a_usage_problem(tmp_path):
    with pytest.raises(UsageProblem, match="cannot be read"):
        load(Settings, {}, {}, tmp_path / "none.yaml")


def test_other_known_sections_are_left_alone(tmp_path):
    file = tmp_path / "r.yaml"
    file.write_text("rendezvous:\n  anything: 1\n")
    loaded = load(Settings, {}, {"RESURGE_RENDEZVOUS__PORT": "1"}, file, known_sections=["rendezvous"])
    assert loaded.settings == Settings()


def test_settings_are_frozen():
    with pytest.raises(Exception, match="frozen"):
        Settings().warm = False  # type: ignore[misc]


def test_print_config_shows_each_value_with_its_source_and_no_secret():
    loaded = load(Settings, {"job_token": "hush"}, {})
    lines = print_config(loaded).splitlines()
    assert lines[0].split() == ["setting", "value", "source"]
    shown = {line.split()[0]: line for line in lines[1:]}
    assert shown["launcher.max_restarts"].split() == ["launcher.max_restarts", "3", "default"]
    assert "hush" not in shown["launcher.job_token"] and "flag --job-token" in shown["launcher.job_token"]


@click.command()
@settings_options(Settings)
def command(**arguments):
    click.echo(load(Settings, flags_of(Settings, arguments), {}).settings.model_dump_json())


@pytest.mark.parametrize("spelling", ["--max-restarts", "--max_restarts", "--restarts"])
def test_flags_are_accepted_with_dashes_and_underscores(spelling):
    result = CliRunner().invoke(command, [spelling, "9", "--no-warm", "--signals", "A", "--signals", "B"])
    assert result.exit_code == 0, result.output
    assert '"max_restarts":9' in result.output and '"warm":false' in result.output
    assert '"signals":["A","B"]' in result.output


def test_help_shows_documentation_and_default():
    output = CliRunner().invoke(command, ["--help"]).output
    assert "Restarts allowed." in output and "[default: 3]" in output
