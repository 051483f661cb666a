"""The images and the Compose file, as far as they can be judged without an engine."""

from __future__ import annotations

import re
import tomllib

import yaml

from tests.arch import repo

DISTRIBUTIONS = (
    "libs/api",
    "libs/common",
    "services/rendezvous",
    "services/restart_policy",
    "services/log_aggregator",
    "services/host",
    "services/launcher",
)


def dockerfiles() -> dict[str, str]:
    return {name: repo.text(name) for name in repo.files() if name.endswith("/Dockerfile")}


def compose() -> dict:
    return yaml.safe_load(repo.text("docker-compose.yml"))


def bare(requirement: str) -> str:
    return re.split(r"[\[<>=!~; ]", requirement.strip(), maxsplit=1)[0].lower()


def test_every_service_has_its_own_dockerfile():
    services = {name.split("/")[1] for name in repo.files() if re.fullmatch(r"services/\w+/pyproject.toml", name)}
    assert {name.split("/")[1] for name in dockerfiles()} >= services


def test_images_need_no_other_registry_and_do_not_run_as_root():
    for name, text in dockerfiles().items():
        assert not re.search(r"^#\s*syntax", text, re.M), f"{name}: a syntax line is pulled from a registry"
        assert set(re.findall(r"^FROM (\S+)", text, re.M)) == {"python:3.11-slim"}, name
        assert re.search(r"^USER \d+$", text, re.M), f"{name} runs as root"


def test_what_images_install_is_what_the_distributions_need():
    lines = repo.text("deploy/docker/requirements-services.txt").splitlines()
    installed = {bare(line) for line in lines if line.strip() and not line.startswith("#")}
    projects = [tomllib.loads(repo.text(f"{folder}/pyproject.toml"))["project"] for folder in DISTRIBUTIONS]
    needed = {bare(wanted) for project in projects for wanted in project["dependencies"]}
    needed -= {project["name"] for project in projects} | {"resurge"}
    assert installed == needed


def test_every_service_of_compose_is_built_here_or_pinned():
    services = compose()["services"]
    built = {service["image"] for service in services.values() if "build" in service}
    for name, service in services.items():
        if "build" in service:
            assert service["build"]["dockerfile"] in dockerfiles(), name
        elif service["image"] not in built:
            assert re.search(r":\d+\.\d+\.\d+$", service["image"]), f"{name}: {service['image']} is not pinned"


def test_services_and_nodes_have_an_init_a_restart_policy_and_the_token():
    services = compose()["services"]
    running = {name: service for name, service in services.items() if "profiles" not in service}
    assert len([name for name in running if name.startswith("node")]) == 4
    for name, service in running.items():
        assert service["init"] is True, name
        assert service["restart"] in ("unless-stopped", "on-failure"), name
        assert "RESURGE_JOB_TOKEN" in service["environment"], name


def test_every_service_of_the_system_but_the_host_runs_in_compose():
    services = {name.split("/")[1] for name in repo.files() if re.fullmatch(r"services/\w+/Dockerfile", name)}
    built = {
        service["build"]["dockerfile"].split("/")[1] for service in compose()["services"].values() if "build" in service
    }
    assert built == services - {"host"}


def test_nodes_send_what_they_print_through_the_leaf_to_the_log_server():
    services = compose()["services"]
    for name in ("node0", "node1", "node2", "node3"):
        assert "--log-endpoint log-leaf:7473" in services[name]["command"]
        assert services[name]["depends_on"]["log-leaf"]["condition"] == "service_healthy"
    leaf = services["log-leaf"]
    assert "--listen 0.0.0.0:7473" in leaf["command"] and "--log-root log-aggregator:7472" in leaf["command"]
    assert leaf["depends_on"]["log-aggregator"]["condition"] == "service_healthy"
    assert leaf["image"] == services["log-aggregator"]["image"]
    assert "127.0.0.1:7473" in leaf["healthcheck"]["test"]
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in leaf["environment"]
    assert "0.0.0.0:7472" in services["log-aggregator"]["command"]
