"""What programs.py and processes.py share: the bytes that a run ended with, and the lines that they write."""
import hashlib
import json


def state(folder):
    """Of all tensors of the last checkpoint, weights and optimizer; its header, with times, left out."""
    bytes_ = (folder / "checkpoint-last").read_bytes()
    return hashlib.sha256(bytes_[8 + int.from_bytes(bytes_[:8], "little"):]).hexdigest()


def write_lines(lines, out):
    """Prints each as JSON when it is there, and adds it to the file `out`, unless None. 1 if one has failed, otherwise 0."""
    failed = False
    for line in lines:
        failed = failed or "failed" in line
        print(json.dumps(line), flush=True)
        if out:
            with out.open("a") as file:
                file.write(json.dumps(line) + "\n")
    return 1 if failed else 0
