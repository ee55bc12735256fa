"""Where the commands begin: Ctrl-C is an interruption also while doctor is still being loaded.

Nothing is imported before that is so.
"""


def main() -> None:
    """Run the command line and exit."""
    try:
        from doctor.cli.main import main as run

        run()
    except KeyboardInterrupt:
        import sys

        print("doctor: interrupted", file=sys.stderr)
        raise SystemExit(130) from None
