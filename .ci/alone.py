#!/usr/bin/env python3
"""Compiles each file by itself that a build compiles in groups, as it is where there is a compiler cache (docs/building.md).

    .ci/alone.py BUILD [PATTERN]     only files whose paths match; exit code 1 if one fails

In a group a file may do without an include that one above it has. The commands are those of BUILD/compile_commands.json, but that no
code is generated. What the build itself writes, such as embedded files, is left out.
"""
import json, os, re, shlex, subprocess, sys
from concurrent.futures import ThreadPoolExecutor

GROUP = re.compile(r"/Unity/unity_\d+_cxx\.cxx$")


def members(build):
    """(folder, command, file) of each file of each group."""
    build = os.path.realpath(build)
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        steps = json.load(file)
    for step in steps:
        if GROUP.search(step["file"]):
            words = shlex.split(step["command"])
            at = words.index("-o")
            del words[at : at + 2]
            words[words.index(step["file"])] = "-fsyntax-only"
            with open(step["file"], encoding="utf-8") as group:
                for name in re.findall(r'^#include "(.+)"', group.read(), re.MULTILINE):
                    if not name.startswith(build + os.sep):
                        yield step["directory"], words, name


def failure(member):
    folder, words, name = member
    done = subprocess.run([*words, name], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return "" if done.returncode == 0 else f"{name} cannot be compiled by itself:\n{done.stdout}"


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    chosen = [m for m in members(sys.argv[1]) if re.search(sys.argv[2] if len(sys.argv) == 3 else "", m[2])]
    if not chosen:
        sys.exit(f"alone.py: {sys.argv[1]} compiles no such file in a group; is CMAKE_UNITY_BUILD=OFF?")
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        failed = [said for said in workers.map(failure, chosen) if said]
    print("".join(failed), end="")
    print(f"{len(chosen)} files compiled by themselves, {len(failed)} failed")
    sys.exit(1 if failed else 0)


main()
