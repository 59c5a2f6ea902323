"""The folder for Kubernetes fits the program: its options, its paths over HTTP, its ports and signals."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "deploy" / "kubernetes"
KIND = {"Namespace": 1, "Service": 2, "StatefulSet": 1, "PodDisruptionBudget": 1}


def read(name: str) -> str:
    return (FOLDER / name).read_text()


@pytest.fixture(scope="module")
def kustomization() -> dict:
    return yaml.safe_load(read("kustomization.yaml"))


@pytest.fixture(scope="module")
def resources(kustomization) -> list[dict]:
    return [found for name in kustomization["resources"] for found in yaml.safe_load_all(read(name))]


@pytest.fixture(scope="module")
def nodes(resources) -> dict:
    return next(found for found in resources if found["kind"] == "StatefulSet")


@pytest.fixture(scope="module")
def container(nodes) -> dict:
    (container,) = nodes["spec"]["template"]["spec"]["containers"]
    return container


def options(structures: list[str]) -> set[str]:
    """Return the long options of structures in the program's source."""
    source = (ROOT / "crates/cli/src/options.rs").read_text()
    found = set()
    for name in structures:
        body = re.search(rf"pub struct {name} \{{\n(.*?)\n\}}\n", source, re.DOTALL)[1]
        for attribute, field in re.findall(r"#\[arg\((.*?)\)\]\n +(?:pub )?(\w+):", body, re.DOTALL):
            if re.search(r"\blong\b", attribute):
                named = re.search(r'long = "([\w-]+)"', attribute)
                found.add("--" + (named[1] if named else field.replace("_", "-")))
    return found


def words(script: str, program: str) -> list[list[str]]:
    """Return the arguments of each call of a program in a script."""
    joined = script.replace("\\\n", " ")
    lines = [line.strip() for line in joined.splitlines() if not line.lstrip().startswith("#")]
    calls = [line for line in lines if re.match(rf"(exec )?{program} ", line)]
    return [shlex.split(line.removeprefix("exec "))[1:] for line in calls]


def value(arguments: list[str], option: str) -> str:
    return arguments[arguments.index(option) + 1]


def test_all_files_are_of_the_folder_and_all_kinds_are_there(kustomization, resources):
    named = set(kustomization["resources"]) | {"kustomization.yaml", "README.md"}
    for generated in kustomization["configMapGenerator"]:
        named |= set(generated["files"])
    assert named == {path.name for path in FOLDER.iterdir()}
    kinds = [found["kind"] for found in resources]
    assert {kind: kinds.count(kind) for kind in kinds} == KIND
    assert all(found["apiVersion"] for found in resources)


def test_options_are_those_of_the_program():
    serve, shell = options(["ServeOptions", "Opening"]), options(["Options", "Opening"])
    assert {"--cluster", "--temp-directory", "--tls-cert"} <= serve and "--csv" in shell
    ((command, *arguments),) = words(read("start.sh"), "hypostyle")
    assert (command, arguments[0]) == ("serve", "/data/main.hypo")
    given = {word for word in arguments if word.startswith("--")}
    assert given <= serve, given - serve
    ((address, *arguments),) = words(read("join.sh"), "hypostyle")
    given = {word for word in arguments if word.startswith("--")}
    assert given <= shell, given - shell
    assert address == "hypostyle+unix://" + value(words(read("start.sh"), "hypostyle")[0], "--unix").replace(
        "$directory", "/run/hypostyle"
    )


def test_ports_and_probes_agree(resources, container):
    ((_, *arguments),) = words(read("start.sh"), "hypostyle")
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    listens = re.search(r'listen = "0\.0\.0\.0:(\d+)"', read("start.sh"))[1]
    assert ports == {
        "hypostyle": int(listens),
        "postgres": int(value(arguments, "--pgwire").split(":")[1]),
        "http": int(value(arguments, "--metrics").split(":")[1]),
    }
    http = (ROOT / "crates/server/src/http.rs").read_text()
    answered = set(re.findall(r'\(&Method::GET, "(/[\w-]+)"\)', http))
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"]:
        asked = container[probe]["httpGet"]
        assert asked["port"] == "http" and asked["path"] in answered, probe
    assert container["readinessProbe"]["httpGet"]["path"] == "/in-sync"
    for service in (found for found in resources if found["kind"] == "Service"):
        for port in service["spec"]["ports"]:
            assert port["targetPort"] in ports and port["port"] == ports[port["targetPort"]]


def test_names_and_labels_agree(resources, nodes):
    spec = nodes["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels
    services = [found for found in resources if found["kind"] == "Service"]
    by_name = {service["metadata"]["name"]: service["spec"] for service in services}
    headless = by_name[spec["serviceName"]]
    assert headless["clusterIP"] == "None" and headless["publishNotReadyAddresses"] is True
    assert all(service["selector"] == labels for service in by_name.values())
    budget = next(found for found in resources if found["kind"] == "PodDisruptionBudget")
    assert budget["spec"]["selector"]["matchLabels"] == labels and budget["spec"]["maxUnavailable"] == 1
    # Where nodes find each other is what the scripts write.
    suffix = f".{spec['serviceName']}.$POD_NAMESPACE.svc.cluster.local:4953"
    assert f'address = "$POD_NAME{suffix}"' in read("start.sh")
    assert f"{nodes['metadata']['name']}-$number{suffix}" in read("join.sh")
    environment = {entry["name"] for entry in spec["template"]["spec"]["containers"][0]["env"]}
    used = set(re.findall(r"\$\{?(POD_\w+)", read("start.sh") + read("join.sh")))
    assert used == environment


def test_paths_are_mounted(nodes, container, kustomization):
    volumes = {volume["name"]: volume for volume in nodes["spec"]["template"]["spec"]["volumes"]}
    claims = {claim["metadata"]["name"] for claim in nodes["spec"]["volumeClaimTemplates"]}
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert set(mounts.values()) == set(volumes) | claims
    assert mounts["/data"] in claims
    (generated,) = kustomization["configMapGenerator"]
    assert volumes["scripts"]["configMap"]["name"] == generated["name"]
    assert container["command"] == ["/bin/sh", f"{mount_of(mounts, 'scripts')}/start.sh"]
    for path in re.findall(r"(?:/etc|/run|/data|/tmp)[\w./-]*", read("start.sh") + read("join.sh")):
        assert any(path == mount or path.startswith(f"{mount}/") for mount in mounts), path
    readme = read("README.md")
    for secret in ["tls.crt", "tls.key", "ca.crt", "cluster.password", "users"]:
        assert f"--from-file={secret}" in readme
    for volume in volumes.values():
        if "secret" in volume:
            assert volume["secret"]["secretName"] in readme


def mount_of(mounts: dict[str, str], name: str) -> str:
    return next(path for path, volume in mounts.items() if volume == name)


def test_a_pod_has_time_to_end(nodes, container):
    (_, _, command) = container["lifecycle"]["preStop"]["exec"]["command"]
    hook = re.fullmatch(r"kill -USR1 1 && sleep (\d+)", command)
    assert "user_defined1" in (ROOT / "crates/cli/src/serve.rs").read_text()
    stops = int(value(words(read("start.sh"), "hypostyle")[0], "--stop-timeout"))
    grace = nodes["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert int(hook[1]) + stops < grace
    # The program is the pod's first process, which gets its signals.
    assert re.search(r"^exec hypostyle serve", read("start.sh"), re.MULTILINE)


def test_the_scripts_are_read_by_a_shell():
    for name in ["start.sh", "join.sh"]:
        subprocess.run(["sh", "-n", str(FOLDER / name)], check=True)


def test_join_adds_the_nodes_that_are_not_there(tmp_path):
    shown, program = tmp_path / "shown", tmp_path / "hypostyle"
    shown.write_text("node0,hypostyle-0:1,active\nnode10,hypostyle-10:1,active\n")
    program.write_text(
        '#!/bin/sh\nfor last; do :; done\necho "$last" >> log\n'
        "if [ \"$last\" = 'SHOW CLUSTER' ]; then cat shown; fi\n"
    )
    program.chmod(0o755)
    path = f"{tmp_path}:/usr/bin:/bin"
    environment = {"PATH": path, "POD_NAME": "hypostyle-0", "POD_NAMESPACE": "shop"}
    command = ["sh", str(FOLDER / "join.sh"), "3"]
    subprocess.run(command, env=environment, cwd=tmp_path, check=True, capture_output=True)
    run = (tmp_path / "log").read_text().splitlines()
    host = "hypostyle.shop.svc.cluster.local:4953"
    assert [line for line in run if line.startswith("ALTER")] == [
        f"ALTER CLUSTER ADD NODE node{number} ADDRESS 'hypostyle-{number}.{host}'" for number in [1, 2]
    ]


def test_kustomize_takes_the_folder(resources):
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl here, whose own check of the folder this is")
    done = subprocess.run(
        ["kubectl", "kustomize", str(FOLDER)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    built = list(yaml.safe_load_all(done.stdout))
    assert len(built) == len(resources) + 1
    assert {found["kind"] for found in built} == set(KIND) | {"ConfigMap"}
    nodes = next(found for found in built if found["kind"] == "StatefulSet")
    (scripts,) = (found for found in built if found["kind"] == "ConfigMap")
    volumes = nodes["spec"]["template"]["spec"]["volumes"]
    named = [volume["configMap"]["name"] for volume in volumes if "configMap" in volume]
    assert named == [scripts["metadata"]["name"]]
