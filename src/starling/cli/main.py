"""The command ``starling``: find the verb, run it, turn what goes wrong into one sentence and an exit status."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

import typer

from starling import __version__
from starling.cli import calibrate, demo, doctor, export, forecast, generate, import_, infer, inspect, partition, train
from starling.core.errors import StarlingError
from starling.core.outside import outside_cause

# Typer carries its own copy of Click, and where it keeps it has changed; the base classes of a public name have not.
_CommandLineError = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")

_INTERRUPTED = 130

app = typer.Typer(
    name="starling",
    help="Train graph neural networks on graphs larger than the machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.demo)
app.command("generate")(generate.generate)
app.command("import")(import_.import_)
app.command("export")(export.export)
app.command("inspect")(inspect.inspect)
app.command("partition", epilog=partition.METHODS_EPILOG)(partition.partition)
app.command("calibrate")(calibrate.calibrate)
app.command("forecast")(forecast.forecast)
app.command("train")(train.train)
app.command("infer")(infer.infer)
app.command("doctor")(doctor.doctor)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"starling {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Show the version and leave."),
) -> None:
    pass


def main(arguments: list[str] | None = None) -> None:
    """Run a command line and leave with its exit status: 0 done, 2 wrong input, 1 anything else, 130 interrupted."""
    signal.signal(signal.SIGTERM, _interrupt)
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: list[str]) -> int:
    """Run a command line in this process and return its exit status."""
    try:
        status = app(arguments, prog_name="starling", standalone_mode=False)
    except StarlingError as error:
        return _complain(str(error), error.exit_status)
    except (KeyboardInterrupt, typer.Abort):
        status = _INTERRUPTED  # Typer catches the first itself while a verb runs, and gives this status
    except BrokenPipeError:
        # Whoever read our output has gone (starling … | head); Python must not try to flush to it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if isinstance(error, _CommandLineError):
            return _complain(_usage_sentence(error), 2)
        if (told := outside_cause(error)) is not None:
            return _complain(str(told), told.exit_status)
        raise
    if status == _INTERRUPTED:
        return _complain("Interrupted; nothing half-written is left, and a run that had begun keeps what it learnt.", status)
    return status if isinstance(status, int) else 0


def _usage_sentence(error: Exception) -> str:
    """What is wrong with the flags, on one line, and where to read about them."""
    message = " ".join(error.format_message().replace("Value error, ", "").split()) or "Expected a command"  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "starling"
    return f"{message.rstrip('.')}{'' if message.endswith('?') else '.'} See: {command} --help."


def _complain(sentence: str, status: int) -> int:
    print(f"starling: {sentence}", file=sys.stderr)
    return status


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
