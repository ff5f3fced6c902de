# SPDX-License-Identifier: Apache-2.0
"""What is installed beside the program says what the program says: manual pages, completions, the service. They are printed by the build's installed_file."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BASCULE_BUILD_DIR", ROOT / "build")).resolve()
PROGRAM, MAKER = BUILD / "bascule", BUILD / "src/commands/installed_file"
GLOBAL = {"-h", "--help", "--version"}


def output_of(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True, **options).stdout


def installed(name, **environment):
    return output_of(MAKER, name, PROGRAM, env={**os.environ, "SOURCE_DATE_EPOCH": "1795654800", **environment})


def options_in(help_text):
    """{option: whether it takes a value} of a help page."""
    found = {}
    for names, rest in re.findall(r"^  ((?:-\w,)?--[\w-]+)(.*)", help_text, re.M):
        for name in names.split(","):
            found[name] = bool(re.match(r" (TEXT|INT|UINT|FLOAT|LOG LINE)", rest))
    return found


def plain(roff):
    """The page without marks of fonts; a paragraph is one line, the head of an entry another."""
    lines = []
    is_head = False
    for line in roff.splitlines():
        is_text = not line.startswith(".")
        if is_text and lines and not lines[-1].startswith(".") and not is_head:
            lines[-1] += " " + line
        else:
            lines.append(line)
        is_head = is_text and lines[-2:-1] == [".TP"]
    return re.sub(r"\\f[BIR]", "", "\n".join(lines) + "\n").replace("\\-", "-").replace("\\&", "").replace("\\e", "\\")


@unittest.skipUnless(PROGRAM.is_file() and MAKER.is_file(), "needs bascule and installed_file in the build folder")
class InstalledFiles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        listed = output_of(PROGRAM, "help").split("Subcommands:\n")[1]
        cls.commands = re.findall(r"^  (\w+) ", listed, re.M)
        cls.options = {name: options_in(output_of(PROGRAM, "help", name)) for name in cls.commands}

    def test_the_manual_has_every_command_and_option(self):
        parts = re.split(r"^\.SS ", plain(installed("bascule.1")).split(".SH EXIT STATUS")[0], flags=re.M)
        heads = {part.split()[1]: set(re.findall(r"(?:^|, )(--?[\w-]+)", "\n".join(re.findall(r"^\.TP\n(-.*)", part, re.M)), re.M)) for part in parts[1:]}
        self.assertEqual(list(heads), self.commands)
        self.assertEqual(heads, {name: set(options) for name, options in self.options.items()})
        for name in self.commands:
            purpose = " ".join(output_of(PROGRAM, "help", name).split("\nUsage:")[0].split())
            self.assertIn(purpose, plain(installed("bascule.1")))

    def test_the_manual_of_the_settings_has_every_key(self):
        page = plain(installed("bascule.toml.5"))
        keys = json.loads(output_of(PROGRAM, "settings", "--json"))["keys"]
        entries = re.findall(r"^\.TP\n([\w]+)\n(.*)\.\n\.br\nAllowed: (.*)\. (?:Default: (.*)|Required)\. May change: (.*)\.$", page, re.M)
        self.assertEqual(entries, [(key["key"].split(".")[-1], key["meaning"], key["allowed"], "" if key["default"] == "required" else key["default"], key["may_change"])
                                   for key in keys])
        tables = list(dict.fromkeys(key["key"].rpartition(".")[0] for key in keys))
        self.assertEqual(re.findall(r"^\.SS \[+([\w.]+)\]+$", page, re.M), [table.replace("[]", "") for table in tables])

    def test_the_manual_of_the_settings_has_the_heads_of_every_family(self):
        models = plain(installed("bascule.toml.5")).split(".SH MODELS")[1].split(".SH")[0]
        found = {family: heads.split(", ") for family, heads in re.findall(r"^\.TP\n(\w+)\nhead: ([\w, \n]+);", models, re.M)}
        table = (ROOT / "src" / "models" / "README.md").read_text().split("\n\n")[1]
        self.assertEqual(found, {family: re.findall(r"`(\w+)`", heads) for family, heads in re.findall(r"^\| `(\w+)` \|([^|]+)\|", table.split("---|\n")[1], re.M)})
        self.assertIn("vision_model, text_model, text_pooler", " ".join(models.split()))

    def test_the_exit_codes_are_those_of_the_first_page(self):
        codes = re.findall(r"^\.TP\n([\d, ]+)\n(.*)", plain(installed("bascule.1")).split(".SH EXIT STATUS")[1].split(".SH")[0], re.M)
        table = (ROOT / "README.md").read_text()
        self.assertEqual([code for code, _ in codes], [*"01234567", "129, 130, 143"])
        for code, meaning in codes:
            self.assertIn(f"| {code} | {meaning} |", table)
        self.assertEqual(subprocess.run([PROGRAM, "rnu"], capture_output=True, check=False).returncode, 2)

    def test_the_manual_names_the_causes_of_slow_figures(self):
        names = re.findall(r'^    \{"([\w ]+)", \w+, \w+,', (ROOT / "src/bringup/causes.cpp").read_text(), re.M)
        page = plain(installed("bascule.1")).split(".SH CAUSES")[1].split(".SH")[0]
        self.assertGreater(len(names), 10)
        self.assertEqual(re.findall(r"^\.TP\n(.*)", page, re.M), names)

    @unittest.skipIf(shutil.which("groff") is None and shutil.which("mandoc") is None, "neither groff nor mandoc is installed")
    def test_the_manual_pages_render_without_a_warning(self):
        for name in ("bascule.1", "bascule.toml.5"):
            for checker in (["mandoc", "-T", "lint"], ["groff", "-man", "-ww", "-z", "-K", "utf8"]):
                if shutil.which(checker[0]):
                    done = subprocess.run(checker, input=installed(name), capture_output=True, text=True, check=False)
                    self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""), (name, checker[0]))

    def test_the_date_of_a_page_is_that_of_the_source(self):
        self.assertIn('"2001-09-09"', installed("bascule.1", SOURCE_DATE_EPOCH="1000000000").splitlines()[0])

    def completed(self, *lines):
        """What bash offers at the end of each line; a final "FILES" where it offers files."""
        words = "\n".join(f"ask {' '.join(repr(word) for word in line)}" for line in lines)
        script = (installed("bascule") + 'compopt() { COMPREPLY+=(FILES); }\n'
                  'ask() { COMP_WORDS=(bascule "$@"); COMP_CWORD=$#; _bascule; echo "${COMPREPLY[*]}"; }\n' + words)
        return [line.split() for line in output_of("bash", "--norc", "-c", script).splitlines()]

    def test_bash_completes_commands_options_and_values(self):
        commands, options, *each = self.completed([""], ["-"], *([name, "-"] for name in self.commands))
        self.assertEqual(commands, self.commands)
        self.assertEqual(set(options), GLOBAL)
        self.assertEqual([set(found) for found in each], [set(self.options[name]) for name in self.commands])
        self.assertEqual(self.completed(["dr"], ["help", "dr"], ["bench", "--use", ""], ["bench", "x.toml", "--use", "=", "ev"], ["plan", "--svg", ""], ["plan", "--svg", "=", "a"],
                                        ["plan", ""], ["bench", "--steps", ""], ["draw", "-o", ""], ["--version", "pl"]),
                         [["draw"], ["draw"], ["train", "evaluate", "generate", "draw"], ["evaluate"], ["FILES"], ["FILES"], ["FILES"], [], ["FILES"], ["plan"]])

    def test_values_of_a_closed_list_are_in_help_and_completions(self):
        """Those that a check of their own refuses too."""
        lists = {("generate", "--precision"): "float32 bf16", ("verify", "--precision"): "float32 bf16", ("draw", "--precision"): "float32 bf16",
                 ("draw", "--scheduler"): "default pndm ddim euler", ("draw", "--timestep-spacing"): "leading linspace trailing",
                 ("verify", "--isa"): "auto avx2 avx512 avx512_bf16 amx scalar", ("tokenize", "--padding"): "max_length longest", ("generate", "--early-stopping"): "false true never"}
        self.assertEqual([" ".join(sorted(words)) for words in self.completed(*([*place, ""] for place in lists))], [" ".join(sorted(words.split())) for words in lists.values()])
        for (command, option), words in lists.items():
            closed = re.search(rf"{option} TEXT:{{(.*?)}}", output_of(PROGRAM, "help", command))
            self.assertEqual(sorted(closed[1].split(",")), sorted(words.split()), (command, option))

    @unittest.skipIf(shutil.which("zsh") is None, "zsh is not installed")
    def test_zsh_knows_the_same_commands_and_options(self):
        """Its own functions are replaced by some that print what they are given."""
        stubs = ("_describe() { print -rl -- COMMANDS $commands }\n_files() {}\n"
                 "_arguments() { if [[ $1 == -C ]]; then state=$asked; else print -rl -- \"$@\"; fi }\n")
        self.assertNotIn("bad", output_of("zsh", "-fn", "-c", installed("_bascule")))

        def given(asked, command=""):
            return output_of("zsh", "-f", "-c", f"{stubs} asked={asked}; words=({command}); f() {{\n{installed('_bascule')}\n}}; f").splitlines()

        self.assertEqual([line.split(":")[0] for line in given("command")], ["COMMANDS", *self.commands])
        for name in self.commands:
            found = {option: bool(value) for option, value in re.findall(r"^(?:\([^)]*\))?(--?[\w-]+)([=+]?)\[", "\n".join(given("arguments", name)), re.M)}
            self.assertEqual(found, self.options[name] | ({"-o": True} if name == "draw" else {}), name)

    @unittest.skipIf(shutil.which("systemd-analyze") is None, "systemd-analyze is not installed (Debian's package systemd)")
    def test_systemd_has_nothing_to_say_about_the_service(self):
        with tempfile.TemporaryDirectory() as folder:
            units = [pathlib.Path(folder, name) for name in ("bascule-serve@.socket", "bascule-serve@.service", "bascule@.service")]
            for unit in units:
                unit.write_text(installed(unit.name))
            for unit in units:
                name = unit.name
                verified = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False)
                self.assertEqual((verified.returncode, verified.stdout + verified.stderr), (0, ""), name)
                if name.endswith(".service"):
                    named = unit.with_name(name.replace("@", "@a"))
                    named.write_text(unit.read_text())
                    security = output_of("systemd-analyze", "security", "--offline=true", "--no-pager", named)
                    self.assertLessEqual(float(re.search(r"Overall exposure level for \S+: ([0-9.]+)", security)[1]), 1.5, security)

    def test_the_service_reads_and_writes_where_the_manual_says(self):
        unit, page = installed("bascule@.service"), plain(installed("bascule.1"))
        self.assertIn(f'\nExecStart="{PROGRAM}" run "/etc/bascule/%i.toml"\n', unit)
        self.assertIn("\nStateDirectory=bascule/%i\n", unit)
        self.assertIn("\nUser=bascule\n", unit)
        service = installed("bascule-serve@.service")
        for line in (f'ExecStart="{PROGRAM}" serve "/etc/bascule/%i.toml"', "Requires=bascule-serve@%i.socket", "User=bascule", "PrivateNetwork=yes", "Also=bascule-serve@%i.socket"):
            self.assertIn(f"\n{line}\n", service)
        self.assertIn("\nListenStream=/run/bascule/%i.sock\n", installed("bascule-serve@.socket"))
        self.assertTrue(installed("bascule.conf").startswith("u bascule - "))
        for path in ("/etc/bascule/NAME.toml", "/var/lib/bascule/NAME"):
            self.assertIn(f".TP\n{path}\n", page)
        self.assertIn("bascule stop /var/lib/bascule/NAME ends its training", " ".join(page.split()))

    def test_all_of_it_is_installed(self):
        with tempfile.TemporaryDirectory() as folder:
            output_of("meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", folder)
            prefix = next(option["value"] for option in json.loads(output_of("meson", "introspect", "--buildoptions", BUILD)) if option["name"] == "prefix")
            root = pathlib.Path(folder, prefix.lstrip("/"))
            files = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
            examples = {f"share/doc/bascule/examples/{path.name}" for path in (ROOT / "config").glob("*.toml")}
            self.assertEqual(files, examples | {"bin/bascule", "share/man/man1/bascule.1", "share/man/man5/bascule.toml.5", "share/bash-completion/completions/bascule",
                                                "share/zsh/site-functions/_bascule", "lib/sysusers.d/bascule.conf", *(f"lib/systemd/system/bascule{unit}" for unit in ("@.service", "-serve@.service", "-serve@.socket"))})
            self.assertIn(f'ExecStart="{prefix}/bin/bascule" run', (root / "lib/systemd/system/bascule@.service").read_text())
            self.assertNotIn("PATH", output_of("readelf", "-d", root / "bin/bascule"))
