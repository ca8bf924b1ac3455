"""The command line: `nova-nb lab | open | doctor | verify | requests | list`.

Knows: arguments, exit codes, what is printed. Does not know how any question is answered; each
command imports the room that does when it runs. Every error is one sentence on stderr and exit
status 2. Text that comes from a session is printed without control characters: a log is hostile,
and a terminal obeys them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import __version__
from .errors import NotASession, NovaError, UsageError

if TYPE_CHECKING:
    from .diagnosis.report import Diagnosis
    from .foreign.base import SessionInfo
    from .session import Session

LARGE = 20_000_000
"""bytes from which a person is told that reading takes a while"""

EXIT = {"clear": 0, "fault": 1, "undecidable": 3}
"""exit status of `doctor` by verdict; 2 is kept for what cannot be read"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; gives its exit status. Never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    args = _parser().parse_args(argv)
    run: Callable[[argparse.Namespace], int] = args.run
    try:
        return run(args)
    except NovaError as error:
        say(str(error))
    except BrokenPipeError:
        # the reader has seen enough (`| head`); what Python would still flush at exit has nowhere to go
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    except OSError as error:
        say(f"{error.filename or 'nova-nb'}: {error.strerror or error}; check the path and its permissions")
    except Exception as error:
        say(f"a fault of Nova, not of yours ({type(error).__name__}: {error}); please report it with the command you ran")
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="nova-nb", description="See, run and debug what a coding agent remembers.")
    parser.add_argument("--version", action="version", version=f"nova-nb {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], int], help: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=help, description=help)
        sub.set_defaults(run=run)
        return sub

    def reads(sub: argparse.ArgumentParser) -> argparse.ArgumentParser:
        sub.add_argument("file", metavar="FILE", help="a session: a file, a folder, or a database")
        sub.add_argument("--session", metavar="ID", help="which one, of a store that holds several")
        return sub

    lab = command("lab", _lab, "start JupyterLab on the first notebook")
    lab.add_argument("notebook", nargs="?", metavar="NOTEBOOK", help="another notebook to open")
    lab.add_argument("--port", type=int, help="port of the server")
    lab.add_argument("--no-browser", action="store_true", help="print the address instead of opening it")
    page = reads(command("open", _open, "open a session in the explorer, as one self-contained page"))
    page.add_argument("--html", metavar="OUT", help="write the page there instead of opening it")
    doctor = reads(command("doctor", _doctor, "say what is wrong with a session, and which layer caused it"))
    doctor.add_argument("--trace", metavar="TEXT", help="follow a text: where it was at each step, and when it left")
    doctor.add_argument("--json", action="store_true", help="print the diagnosis as JSON")
    doctor.add_argument("--repair", metavar="OUT", help="write a repaired copy there, of what is recorded or proved")
    doctor.add_argument("--report", metavar="OUT", help="write a report to share (.md or .html), private text taken out")
    doctor.add_argument("--no-redact", action="store_true", help="leave private text in the report")
    reads(command("verify", _verify, "derive every recorded request again and compare it"))
    requests = reads(command("requests", _requests, "what the model was sent: all steps, one of them, or two compared"))
    requests.add_argument("--step", type=int, metavar="N", help="one step, counted from 1")
    requests.add_argument("--diff", type=int, metavar="M", help="how step M departs from step N")
    requests.add_argument("--json", action="store_true", help="print it as JSON; a step in the provider's own words")
    listing = command("list", _list, "list the sessions in a folder and below it, or in a database")
    listing.add_argument("file", metavar="FOLDER", help="a folder, file or database")
    return parser


def _lab(args: argparse.Namespace) -> int:
    from .lab import start

    return start(args.notebook, args.port, not args.no_browser)


def _open(args: argparse.Namespace) -> int:
    session = _session(args)
    from .views.page import page

    html = page(session)
    if args.html:
        Path(args.html).write_text(html, "utf-8", "backslashreplace")
        say(f"wrote {args.html} ({len(html) / 1e6:.1f} MB); it needs no network")
        return 0
    import tempfile
    import webbrowser

    with tempfile.NamedTemporaryFile(
        "w", suffix=".html", prefix="nova-", delete=False, encoding="utf-8", errors="replace"
    ) as file:
        file.write(html)
    say(f"wrote {file.name}")
    if not webbrowser.open(Path(file.name).as_uri()):
        say("no browser could be opened; open the file yourself, or use --html OUT")
    return 0


def _doctor(args: argparse.Namespace) -> int:
    path = Path(args.file)
    if path.is_dir() and args.session is None:
        from .diagnosis.survey import sessions_below

        infos = sessions_below(path)
        if len(infos) > 1:
            return _survey(args, infos)
        if not infos:
            raise NotASession(f"{path}: there is no session of an agent that Nova knows in this folder")
        args.file, args.session = infos[0].path, infos[0].session_id or None
    session = _session(args)
    report = session.diagnose()
    trace = session.trace(args.trace) if args.trace else None
    if args.report:
        from .diagnosis import share

        write = share.html if str(args.report).endswith((".html", ".htm")) else share.markdown
        Path(args.report).write_text(write(report, trace, not args.no_redact), "utf-8", "backslashreplace")
        say(f"wrote {args.report}")
    repaired = None
    if args.repair:
        from .diagnosis.repair import repair

        repaired = repair(session, args.repair)
    if args.json:
        more = {"trace": trace.model_dump(mode="json", by_alias=True)} if trace is not None else {}
        more |= {"repair": repaired.model_dump(mode="json")} if repaired is not None else {}
        out_json(report.model_dump(mode="json", by_alias=True) | more)
    else:
        out(str(report))
        out(*(str(part) for part in (trace, repaired) if part is not None))
    return EXIT[report.verdict]


def diagnose_path(path: str, session_id: str | None) -> Diagnosis:
    """One session of a survey, by path; called in other processes."""
    from .session import open_session

    report: Diagnosis = open_session(path, session_id).diagnose()
    return report


def _survey(args: argparse.Namespace, infos: list[SessionInfo]) -> int:
    """A folder: one row a session, printed as they come."""
    from .diagnosis.survey import survey

    if args.trace or args.repair or args.report:
        raise UsageError(
            f"{args.file} holds {len(infos)} sessions; --trace, --repair and --report take one: give a file, or --session ID"
        )
    rows = []
    if not args.json:
        out(f"{'verdict':12} {'on disk':>8} {'reach':>6} {'request':>8} {'compact':>8} {'dead':>5}  session")
    from tqdm import tqdm

    from .views.text import visible

    shown = tqdm(survey(infos, diagnose_path), total=len(infos), unit="session", disable=None, leave=False, file=sys.stderr)
    for row in shown:
        rows.append(row)
        if not args.json:
            share = "" if row.share is None else f"{row.share:.0%}"
            cells = [row.on_disk, share, row.in_request, row.compactions, row.dead_artifacts]
            texts = ["?" if cell is None else str(cell) for cell in cells]
            what = row.error or ", ".join(row.causes)
            line = f"{row.verdict:12} {texts[0]:>8} {texts[1]:>6} {texts[2]:>8} {texts[3]:>8} {texts[4]:>5}  {row.path}  {what}"
            tqdm.write(visible(line.rstrip()), file=sys.stdout)
    if args.json:
        out_json([row.model_dump(mode="json") | {"share": row.share} for row in rows])
    verdicts = {row.verdict for row in rows}
    return 1 if "fault" in verdicts else 3 if "undecidable" in verdicts else 0


def _verify(args: argparse.Namespace) -> int:
    report = _session(args).verify()
    out(str(report))
    if not report.checks:
        return EXIT["undecidable"]
    return 0 if report.ok else 1


def _requests(args: argparse.Namespace) -> int:
    session = _session(args)
    if args.diff is not None and args.step is None:
        raise UsageError("--diff M compares with a step: give --step N as well")
    if args.step is None:
        return _steps(session, args.json)
    request = session.request(step=args.step)
    if args.diff is not None:
        found = request.diff(session.request(step=args.diff))
        if args.json:
            names = ("first", "block", "same_bytes", "bytes_a", "bytes_b")
            out_json({name: getattr(found, name) for name in names} | {"message": str(found)})
        else:
            out(f"step {args.step} → step {args.diff}: {found}")
            if not found.extends:
                out(*(f"  {mark} {_short(side)}" for mark, side in (("-", found.a), ("+", found.b)) if side is not None))
        return 0
    if args.json:
        out_json(request.body)
        return 0
    out(repr(request), *(f"not known: {text}" for text in request.unknown))
    for i, message in enumerate(request.messages):
        for block in message["content"]:
            out(f"{i:4} {message['role']:9} {block.get('type', '?'):12} {_short(block)}")
    return 0


def _steps(session: Session, as_json: bool) -> int:
    if as_json:
        out_json(session.steps)
        return 0
    from .views.timeline import step_lines

    out(*step_lines(session.steps))
    if not session.steps:
        say(f"{session.path}: no model call is recorded in this session")
    return 0


def _list(args: argparse.Namespace) -> int:
    from .diagnosis.survey import sessions_below
    from .ids import iso
    from .session import list_sessions

    folder = Path(args.file)
    found = sessions_below(folder) if folder.is_dir() else list_sessions(folder)
    if not found:
        raise NotASession(f"{folder}: there is no session of an agent that Nova knows in this folder")
    for s in sorted(found, key=lambda s: s.modified):
        path = Path(s.path)
        where = path.relative_to(folder) if path != folder and path.is_relative_to(folder) else path.name
        named = "" if s.session_id in ("", path.stem) else s.session_id
        of = f"fork of {s.parent}" if s.fork else f"subagent of {s.parent}" if s.parent else ""
        words = (f"{iso(s.modified)[:16]}  {s.size:>12,}  {s.format:14} {where}", named, of, s.title[:80])
        out("  ".join(word for word in words if word))
    return 0


def _session(args: argparse.Namespace) -> Session:
    from .session import open_session

    path = Path(args.file)
    if path.is_file() and (size := path.stat().st_size) > LARGE:
        say(f"reading {path.name} ({size / 1e6:,.0f} MB) …")
    if not path.exists():
        raise NotASession(f"{path}: there is no such file; `nova-nb list FOLDER` shows what there is")
    return open_session(path, args.session)


def out(*lines: str) -> None:
    """Print to stdout, with what a terminal would obey shown as signs."""
    from .views.text import visible

    print("\n".join(visible(line) for line in lines))


def out_json(value: Any) -> None:
    """Print JSON in ASCII: exact for a program, and nothing in it that a terminal would obey."""
    import msgspec

    print(json.dumps(msgspec.to_builtins(value, str_keys=True), indent=2))


def say(line: str) -> None:
    """Print to stderr, likewise."""
    from .views.text import visible

    print(f"nova-nb: {visible(line)}", file=sys.stderr, flush=True)


def _short(value: Any, chars: int = 120) -> str:
    """One line of a block: what it says, or its JSON."""
    if isinstance(value, dict):
        value = value.get("text") or value.get("content") or value.get("input") or value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(text.split())
    return text if len(text) <= chars else f"{text[: chars - 2]} …"


if __name__ == "__main__":
    sys.exit(main())
