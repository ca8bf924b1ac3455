"""`%load_ext nova_nb` in a real IPython shell."""

from __future__ import annotations

from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import nova_nb as nova
from nova_nb import examples, magics
from nova_nb.agent.answer import Answer
from nova_nb.errors import UsageError
from nova_nb.ids import Fixed


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    InteractiveShell.clear_instance()
    # no history: its database would outlive the folder it lies in
    shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    shell.run_line_magic("load_ext", "nova_nb")
    yield shell
    shell.run_line_magic("unload_ext", "nova_nb")
    InteractiveShell.clear_instance()


@pytest.fixture
def kernel(tmp_path: Path):
    shop = examples.workspace("shop", tmp_path / "shop")
    with nova.AgentKernel(shop, permission="allow", home=tmp_path / "home", ids=Fixed()) as kernel:
        yield kernel


def test_a_prompt_cell_waits_for_the_answer_and_shows_it(shell: InteractiveShell, kernel: nova.AgentKernel):
    shell.user_ns["kernel"] = kernel
    done = shell.run_cell('%%ask\nAll timestamps are stored in UTC.\n"""quotes""" and \\ stay as they are\n')
    assert done.success, done.error_in_exec
    assert isinstance(done.result, Answer)
    said = kernel.session.request().messages[0]["content"][0]["text"]
    assert said == 'All timestamps are stored in UTC.\n"""quotes""" and \\ stay as they are\n'


def test_nova_doctor_diagnoses_the_running_session(shell: InteractiveShell, kernel: nova.AgentKernel):
    shell.user_ns["agent"] = kernel
    shell.run_cell("%%ask agent\nAll timestamps are stored in UTC.\n")
    assert shell.run_cell("%nova doctor").result.verdict == "clear"


def test_verify_trace_and_requests_print_what_the_command_line_does(shell: InteractiveShell, kernel: nova.AgentKernel, capsys):
    shell.user_ns["kernel"] = kernel
    shell.run_cell("%nova requests")
    assert capsys.readouterr().out == "no model call yet\n"
    shell.run_cell("%%ask\nAll timestamps are stored in UTC.\n")
    shell.run_cell("%%ask\nWhat did we decide about timestamps?\n")
    capsys.readouterr()
    for line, said in (
        ("%nova verify", "2 of 2 recorded requests derived again"),
        ("%nova doctor --trace 'stored in UTC' kernel", "step 1: nowhere → whole"),
        ("%nova requests", "    2 main      rebuilt"),
        ("%nova requests 1 2", "step 1 → step 2: the second adds"),
    ):
        assert shell.run_cell(line).result is None
        assert said in capsys.readouterr().out
    assert shell.run_cell("%nova requests 2 kernel").result.step == 2


def test_a_compaction_waits_and_says_what_came_of_it(shell: InteractiveShell, kernel: nova.AgentKernel):
    shell.user_ns["kernel"] = kernel
    shell.run_cell("%%ask\nAll timestamps are stored in UTC.\n")
    assert shell.run_cell("%nova compact").result.startswith("nothing changed: ")
    for n in range(6):
        kernel.agent.say("user", [{"type": "text", "text": f"note {n}: " + "x" * 30_000}], "person")
        kernel.agent.say("assistant", [{"type": "text", "text": "noted"}], "model")
    done = shell.run_cell("%nova compact --focus 'the rule' kernel\n")
    assert done.result.startswith("compacted: about 5"), done.error_in_exec
    assert len(kernel.live.chain[0].kept) > 1


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("doctor 'open", "close the quotes"),
        ("explore --trace UTC", "--trace does not belong to explore"),
        ("verify 3", "a step does not belong to verify"),
        ("requests 1 2 3", "no such form"),
        ("timeline --no", "unrecognized arguments: --no"),
        ("", "the following arguments are required"),
        ("requests 9", "there is no step 9"),
        ("explore other", "other is no AgentKernel"),
    ],
)
def test_a_mistake_in_the_line_is_a_sentence(shell: InteractiveShell, kernel: nova.AgentKernel, capsys, line, sentence):
    shell.user_ns["kernel"] = kernel
    assert isinstance(shell.run_cell(f"%nova {line}").error_in_exec, UsageError)
    shown = capsys.readouterr().out.strip()
    assert sentence in shown and "\n" not in shown


def test_a_compaction_among_other_lines_says_where_to_put_it(shell: InteractiveShell, kernel: nova.AgentKernel):
    shell.user_ns["kernel"] = kernel
    assert "a cell of its own" in str(shell.run_cell("x = 1\n%nova compact").error_in_exec)


def test_other_cells_are_left_as_they_are_and_unloading_ends_it(shell: InteractiveShell):
    assert shell.run_cell("x = '%%ask'\nx").result == "%%ask"
    shell.run_line_magic("load_ext", "nova_nb")
    assert shell.input_transformer_manager.cleanup_transforms.count(magics.ask_cell) == 1
    shell.run_line_magic("unload_ext", "nova_nb")
    assert magics.ask_cell not in shell.input_transformer_manager.cleanup_transforms
    shell.run_line_magic("load_ext", "nova_nb")


@pytest.mark.parametrize(
    ("count", "name", "sentence"),
    [(0, "", "make one first"), (2, "", "say which: a, b"), (1, "c", "c is no AgentKernel; there are: a")],
)
def test_which_kernel_is_meant_is_asked_in_a_sentence(kernel: nova.AgentKernel, tmp_path: Path, count, name, sentence):
    other = nova.AgentKernel(tmp_path / "shop", home=tmp_path / "home")
    names = dict(list({"a": kernel, "b": other}.items())[:count])
    with pytest.raises(UsageError, match=sentence):
        magics.kernel_in(names, name)
    other.close()


def test_one_kernel_with_two_names_is_one(kernel: nova.AgentKernel):
    assert magics.kernel_in({"a": kernel, "b": kernel, "_": kernel}) is kernel


def test_an_unknown_view_is_answered_with_those_that_there_are(shell: InteractiveShell, kernel: nova.AgentKernel):
    shell.user_ns["kernel"] = kernel
    error = shell.run_cell("%nova dance").error_in_exec
    assert isinstance(error, UsageError)
    assert "%nova explore" in str(error)


def test_an_error_of_nova_is_shown_as_its_sentence_alone(shell: InteractiveShell, capsys):
    assert not shell.run_cell("%%ask\nfix it\n").success
    shown = capsys.readouterr().out
    assert shown.strip() == "UsageError: there is no AgentKernel here; make one first: kernel = nova_nb.AgentKernel(…)"
