"""The environment that a script passes on when it becomes root."""

import contextlib
import io
import os
import tempfile
from pathlib import Path
from unittest import mock

import build
import examples
from process import Failure, Stop, Unable

_SUDO = """#!/bin/sh
# As Debian's sudo: of the user's variables nothing is left.
shift
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/nonexistent "$@"
"""
_SCRIPT = """\
import os, sys
print(os.environ["PATH"], os.environ["CARGO_TARGET_DIR"], *sys.argv[1:], sep="\\n")
"""


class TestAsRoot:
    """A user without root, and a sudo that clears the environment."""

    def _root_sees(self, variables: dict[str, str]) -> list[str]:
        """The environment of the script started again as root."""
        with tempfile.TemporaryDirectory() as name:
            files = Path(name)
            sudo, script, seen = files / "sudo", files / "script.py", files / "seen"
            sudo.write_text(_SUDO)
            sudo.chmod(0o755)
            script.write_text(_SCRIPT)
            child = os.fork()
            if child == 0:
                with seen.open("w") as out:
                    os.dup2(out.fileno(), 1)
                os.environ.update(variables, PATH=f"{files}:{variables['PATH']}")
                with mock.patch("os.geteuid", return_value=1000):
                    build.become_root(script, ["--json"], Path("/build/pascaline"))
                os._exit(1)
            assert os.waitpid(child, 0)[1] == 0
            path, *others = seen.read_text().splitlines()
            return [path.removeprefix(f"{files}:"), *others]

    def test_root_finds_what_the_user_finds(self) -> None:
        """Rust in the user's home, a Prometheus in PATH; and programs that only root has in PATH."""
        path, target, *arguments = self._root_sees(
            {"PATH": "/home/ada/.cargo/bin:/usr/bin:/bin", "CARGO_TARGET_DIR": "/home/ada/target"}
        )
        assert path == "/home/ada/.cargo/bin:/usr/bin:/bin:/usr/sbin:/sbin", path
        assert target == "/home/ada/target"
        assert arguments == ["--json", "--binary", "/build/pascaline"]

    def test_what_is_built_needs_no_rust(self) -> None:
        """The second pass, or a program from a package."""
        with (
            mock.patch.object(build, "root_is_possible"),
            mock.patch.object(build, "run_long", return_value="") as run,
        ):
            build.ready(Stop(1), Path("/build/pascaline"), build.Wanted(demo=True))
        assert run.call_args.args[0][1:] == ["--no-rust"]

    def test_the_demo_leaves_out_what_it_does_without(self) -> None:
        """And only release programs are measured."""
        demo = " ".join(build.Wanted(demo=True, features=("switchml",)).command())
        assert "--profile demo --locked --no-default-features --features pascaline/switchml" in demo
        assert not build.Wanted(demo=True).setup()
        assert build.Wanted(programs=("pascaline-lab",)).setup() == ["--build"]
        assert "--release --locked -p pascaline" in " ".join(build.Wanted(release=True, tests=True).command())

    def test_without_root_nothing_is_begun(self) -> None:
        """No build of minutes, no namespaces: the exit code is that of a wrong call."""
        code, text = 0, ""
        with mock.patch("os.geteuid", return_value=1000), mock.patch("shutil.which", return_value=None):
            try:
                build.ready(Stop(1), None)
            except Unable as unable:
                code, text = unable.exit_code, str(unable)
        assert code == 2
        assert "there is no sudo" in text

    def test_a_missing_rust_is_a_failure_with_a_text(self) -> None:
        """Where something beside the program has to be built."""
        text = ""
        with mock.patch("shutil.which", return_value=None):
            try:
                build.cargo()
            except Failure as failure:
                text = str(failure)
        assert text.startswith("Rust is missing")

    def test_examples_are_built_when_the_machine_is_ready(self) -> None:
        """On a fresh one there is no DPDK before."""
        order = []

        def ready(*_: object) -> Path:
            order.append("ready")
            return Path("/build/pascaline")

        def built(_: Stop) -> Path:
            order.append("built")
            raise Failure("far enough")

        with (
            mock.patch.object(build, "ready", ready),
            mock.patch.object(examples, "_build", built),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            assert examples.main([]) == 1
        assert order == ["ready", "built"]
