"""Runs a program and reads what it says, and keeps tables as records with where they came from."""
import datetime, json, os, platform, re, subprocess


class Unable(Exception):
    """A program that did not run, and why."""


def output(command, **more):
    environment = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    try:
        done = subprocess.run(command, env={**environment, **more}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except OSError as error:
        raise Unable(str(error)) from error
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.strip()] or [f"ended with {done.returncode}"]
        raise Unable(f"{os.path.basename(command[0])}: {re.sub(r' .choose from.*', '', said[-1].strip())[:160]}")
    return done.stdout


def run(command, *needed):
    try:
        said = json.loads(output(command).splitlines()[-1])
    except (ValueError, IndexError) as error:
        raise Unable(f"{os.path.basename(command[0])}: its last line is not JSON") from error
    missing = [key for key in ("step_ms", "peak_mb", *needed) if key not in said]
    if missing:
        raise Unable(f"{os.path.basename(command[0])}: its last line has no {', '.join(missing)}")
    return said


def described(*command):
    """What a tool says of itself, or of this folder; nothing is lost where it is not installed."""
    try:
        here = os.path.dirname(os.path.realpath(__file__))
        return subprocess.run(command, cwd=here, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, text=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


def here():
    """What is measured, when and on what, as records begin."""
    processor = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith(("model name", "flags"))]
    useful = [flag for flag in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if flag in processor[1].split()]
    return {"git": described("git", "describe", "--always", "--dirty"), "build": {"compiler": described("g++", "--version")},
            "seed": 1, "date": f"{datetime.date.today()}", "load": os.getloadavg(),
            "machine": f"{os.cpu_count()} cores of an {processor[0]} ({', '.join(useful)}), {platform.system()}"}


class Table:
    """Printed row by row, and kept when it is complete. As `with Table(...) as table`, it goes on when a program is Unable."""

    def __init__(self, a, name, head, precision, peer=None):
        self.name, self.head, self.precision, self.peer = name, head, precision, peer
        self.rounds, self.seconds, self.folder = a.rounds, a.seconds, a.records
        self.rows, self.left_out = [], {}

    def __enter__(self):
        print(f"\n{self.name}\n\n| {' | '.join(self.head)} |\n|{'---|' * len(self.head)}", flush=True)
        return self

    def add(self, row):
        self.rows.append(row)
        print(f"| {' | '.join(row)} |", flush=True)

    def __exit__(self, kind, error, _):
        if kind not in (None, Unable):
            return False
        if error:
            self.left_out["the rest"] = str(error)
        if self.left_out:
            print("\nLeft out:\n\n" + "\n".join(f"- {row}: {why}" for row, why in self.left_out.items()), flush=True)
        if self.folder:
            self.keep()
        return True

    def keep(self):
        os.makedirs(self.folder, exist_ok=True)
        with open(os.path.join(self.folder, f"{self.name}.json"), "w") as file:
            json.dump({**here(), "precision": self.precision, "peer": self.peer or "did not run", "rounds": self.rounds,
                       "seconds": self.seconds, "left_out": self.left_out,
                       "tables": [{"title": "steps", "head": self.head, "rows": self.rows}]}, file, indent=1)
            file.write("\n")
