"""In a real ipykernel: cells return while the agent works, buttons are heard, and an interrupt leaves a whole log."""

from __future__ import annotations

import os
import queue
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from jupyter_client.manager import KernelManager

import nova_nb as nova

SETUP = """
import asyncio, nova_nb as nova
from nova_nb.models.base import Capabilities, Reply
class Runs:
    name, provider, capabilities = "runs", "test", Capabilities()
    async def send(self, body, on_delta=None):
        if body["messages"][-1]["content"][0]["type"] == "tool_result":
            return Reply([{"type": "text", "text": body["messages"][-1]["content"][0]["content"]}], "end_turn")
        command = body["messages"][-1]["content"][0]["text"]
        call = {"type": "tool_use", "id": f"t{len(body['messages'])}", "name": "run_command", "input": {"command": command}}
        return Reply([call], "tool_use")
kernel = nova.AgentKernel("ws", Runs(), home="home"%s)
"""


class Cells:
    """Runs cells and hands out what they print; `during` is called with each message of the cell that comes in."""

    def __init__(self, client) -> None:
        self.client = client

    def run(self, code: str, during: Callable[[dict], None] | None = None) -> str:
        id = self.client.execute(code)
        out = []
        while True:
            message = self.client.get_iopub_msg(timeout=60)
            kind, content = message["msg_type"], message["content"]
            if during is not None:
                during(message)
            if message["parent_header"].get("msg_id") != id:
                continue
            if kind == "stream":
                out.append(content["text"])
            elif kind == "execute_result":
                out.append(content["data"]["text/plain"])
            elif kind == "error":
                out.append(f"{content['ename']}: {content['evalue']}")
            elif kind == "status" and content["execution_state"] == "idle":
                return "".join(out).strip()

    def click(self, comm: str) -> None:
        data = {"method": "custom", "content": {"event": "click"}}
        self.client.shell_channel.send(self.client.session.msg("comm_msg", {"comm_id": comm, "data": data}))


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KernelManager, Path]]:
    place = tmp_path_factory.mktemp("kernel")
    (place / "ws").mkdir()
    manager = KernelManager(kernel_name="python3")
    path = os.pathsep.join([str(Path(nova.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    manager.start_kernel(cwd=str(place), env=os.environ | {"PYTHONPATH": path, "IPYTHONDIR": str(place / "ipython")})
    yield manager, place
    manager.shutdown_kernel(now=True)


@pytest.fixture
def cells(manager: tuple[KernelManager, Path]) -> Iterator[Cells]:
    client = manager[0].client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    yield Cells(client)
    client.stop_channels()


def test_a_prompt_cell_shows_buttons_and_goes_on_when_one_is_pressed(cells: Cells):
    assert cells.run(SETUP % "" + "\n%load_ext nova_nb") == ""
    buttons: list[str] = []

    def press(message: dict) -> None:
        if message["msg_type"] == "comm_open" and message["content"]["data"]["state"].get("_model_name") == "ButtonModel":
            buttons.append(message["content"]["comm_id"])
        if message["msg_type"] == "display_data":
            cells.click(buttons[0])

    answer = cells.run("%%ask\necho pressed", press)
    assert answer.startswith("pressed")
    assert len(buttons) == 3


def test_a_cell_returns_while_the_agent_works(cells: Cells):
    cells.run(SETUP % ', permission="allow"')
    assert "at work" in cells.run("run = kernel.start('sleep 0.2; echo done'); run")
    assert cells.run("len(kernel.session.steps)") == "1"
    assert cells.run("await run").startswith("done")


def test_interrupting_a_cell_ends_the_command_and_leaves_a_whole_log(cells: Cells, manager: tuple[KernelManager, Path]):
    cells.run(SETUP % ', permission="allow"')
    begun = manager[1] / "ws" / "begun"
    id = cells.client.execute("await kernel.ask('touch begun; sleep 300')")
    while not begun.exists():
        try:
            cells.client.get_iopub_msg(timeout=0.05)
        except queue.Empty:
            continue
    manager[0].interrupt_kernel()
    # where the signal reaches another thread than the loop's, the loop sees it with the next message
    cells.client.kernel_info()
    while True:
        message = cells.client.get_iopub_msg(timeout=60)
        if message["parent_header"].get("msg_id") == id and message["content"].get("execution_state") == "idle":
            break
    directory = cells.run("print(kernel.live.directory)")
    request = nova.open_session(manager[1] / directory).request()
    assert "interrupted" in request.messages[-1]["content"][0]["content"]
    assert cells.run("await kernel.ask('echo on')").startswith("on")
