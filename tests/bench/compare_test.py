#!/usr/bin/env python3
"""What compare.py takes from a peer, with programs that only print numbers; and that its own peer knows every workload, without torch."""
import json, os, subprocess, sys, tempfile, unittest

sys.dont_write_bytecode = True
import compare, peer_torch

HERE = os.path.dirname(os.path.realpath(__file__))
OURS = {"step_ms": 2, "peak_mb": 3, "gflops": 1, "peak_gflops": 2, "parameters": 1007}
THEIRS = {"step_ms": 6, "peak_mb": 9, "torch": "7.5"}


def program(path, said, first="*"):
    """A program that prints this as JSON if its first argument is like that."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(f"#!/bin/sh\ncase $1 in\n{first}) echo '{json.dumps(said)}' ;;\n*) exit 1 ;;\nesac\n")
    os.chmod(path, 0o755)
    return path


class Peers(unittest.TestCase):
    def compared(self, peer, only="mlp", first="*", name="peer"):
        with tempfile.TemporaryDirectory() as folder:
            program(f"{folder}/bin/training_step", OURS)
            command = program(f"{folder}/{name}", peer, first)
            return subprocess.run([sys.executable, f"{HERE}/compare.py", "--build", folder, "--peer", f"toy={command}", "--only", only,
                                   "--rounds", "1", "--precision", "f32"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_the_same_parameters_are_compared(self):
        for peer in (THEIRS, {**THEIRS, "parameters": 1007}):
            done = self.compared(peer)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("| mlp | 2.0 | 6.0 | 3.00 |", done.stdout)
            self.assertNotIn("Left out", done.stdout)

    def test_other_parameters_are_refused(self):
        done = self.compared({**THEIRS, "parameters": 1008})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("- mlp: the peer trains 1,008 numbers and this build 1,007", done.stdout)
        self.assertNotIn("| mlp |", done.stdout)

    def test_a_python_alone_runs_the_peer_of_this_folder(self):
        self.assertIn("| mlp |", self.compared(THEIRS, first=f"{HERE}/peer_torch.py", name="python3.99").stdout)
        self.assertNotIn("| mlp |", self.compared(THEIRS, first=f"{HERE}/peer_torch.py", name="other").stdout)

    def test_composed_attention_stands_for_the_fused_one(self):
        self.assertIn("| small-1024-softmax |", self.compared(THEIRS, only="small-1024-sdpa", first="small-1024-softmax").stdout)


class PeerTorch(unittest.TestCase):
    def test_it_lists_every_workload_without_torch(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/torch.py", "w") as file:
                file.write("raise ImportError('torch is not needed for this')\n")
            done = subprocess.run([sys.executable, f"{HERE}/peer_torch.py", "--list"], env={**os.environ, "PYTHONPATH": folder},
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        asked = {called for name in compare.WORKLOADS for called in (name, compare.composed(name))}
        self.assertIn("small-1024-softmax", asked)
        self.assertEqual(set(done.stdout.split()), asked)

    def test_it_reads_the_sizes_of_every_workload(self):
        for name in peer_torch.names():
            sizes = peer_torch.sizes_of(name)
            self.assertGreater(sizes.batch, 0, name)
            self.assertEqual(sizes.attention == "sdpa", name.endswith("-sdpa") or sizes.bert, name)


if __name__ == "__main__":
    unittest.main()
