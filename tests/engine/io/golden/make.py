#!/usr/bin/env python3
"""Writes the files that the tests of engine/io read, with other people's implementations of the formats.

Needs numpy, Pillow, safetensors and the program zstd (numpy 1.24, Pillow 9.4, safetensors 0.8 and zstd 1.5 made the files
that are stored here).
Run it in this folder; the tests know the values.
"""

import gzip
import io
import struct
import subprocess
import tarfile
import zipfile

import numpy as np
from PIL import Image
from safetensors.numpy import save_file

save_file(
    {
        "f32": np.array([[1.5, -2.0, 3.25]], dtype=np.float32),
        "f64": np.array([1e300, -0.0], dtype=np.float64),
        "i32": np.array(-7, dtype=np.int32),
        "i64": np.array([[2**40], [-1]], dtype=np.int64),
        "u8": np.array([0, 255, 7], dtype=np.uint8),
        "bool": np.array([True, False], dtype=np.bool_),
        "f16": np.array([0.5, -65504.0, 6e-8, np.inf], dtype=np.float16),
        "i8": np.array([-128, 127], dtype=np.int8),
        "i16": np.array([-32768, 32767], dtype=np.int16),
        "u16": np.array([65535], dtype=np.uint16),
        "u32": np.array([4294967295], dtype=np.uint32),
        "empty": np.zeros((0, 3), dtype=np.float32),
        "größe": np.ones((2,), dtype=np.float32),
    },
    "numpy.safetensors",
    metadata={"format": "np", "note": "größe \"and\" \\ \n end"},
)

ramp = np.arange(6, dtype=np.float32).reshape(2, 3)
with open("c_order_v1.npy", "wb") as f:
    np.lib.format.write_array(f, ramp, version=(1, 0))
with open("fortran_order_v2.npy", "wb") as f:
    np.lib.format.write_array(f, np.asfortranarray(ramp), version=(2, 0))
with open("i64_v3.npy", "wb") as f:
    np.lib.format.write_array(f, np.array([-1, 2**40], dtype=np.int64), version=(3, 0))
np.save("bool.npy", np.array([[True], [False]]))
np.save("f16.npy", np.array([0.5, -2.0], dtype=np.float16))
np.save("scalar.npy", np.array(2.5))
np.save("empty.npy", np.zeros((3, 0), dtype=np.int32))

# Two members, as `cat a.gz b.gz` makes them; the first one names its file and its time.
with open("two_members.gz", "wb") as f:
    with gzip.GzipFile("hello.txt", "wb", 9, f, mtime=1) as member:
        member.write(b"hello, ")
    with gzip.GzipFile("", "wb", 9, f, mtime=0) as member:
        member.write(b"world\n")

grey = (np.arange(12, dtype=np.uint8) * 20).reshape(3, 4)
Image.fromarray(grey).save("grey.png")
rgb = np.stack([grey, grey + 1, 255 - grey], axis=-1)
Image.fromarray(rgb).save("rgb.png")
Image.fromarray(np.concatenate([rgb, grey[..., None]], axis=-1)).save("rgba.png")
Image.fromarray(grey > 100).save("bits.png")
Image.fromarray(rgb).quantize(12).save("palette.png")
Image.merge("LA", (Image.fromarray(grey), Image.fromarray(255 - grey))).save("grey_alpha.png")

# MNIST's own layout: 2 images of 2 x 3, then labels.
with open("images.idx", "wb") as f:
    f.write(struct.pack(">BBBBIII", 0, 0, 8, 3, 2, 2, 3) + bytes(range(12)))

# Archives: a folder, files with a long name, without bytes, with a name and bytes beyond ASCII, and a link to pass over.
packed = [
    ("set/a.txt", b"hello\n"),
    ("set/empty", b""),
    ("set/long.txt", b"".join(b"line %d\n" % i for i in range(3000))),
    ("set/" + 120 * "n" + ".txt", b"a long name"),
    ("set/größe.txt", b"bytes \xff\xfe are bytes"),
]


def write_tar(name, form):
    with tarfile.open(name, "w", format=form) as archive:
        folder = tarfile.TarInfo("set")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for path, content in packed:
            info = tarfile.TarInfo(path)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        link = tarfile.TarInfo("set/link")
        link.type = tarfile.SYMTYPE
        link.linkname = "a.txt"
        archive.addfile(link)


write_tar("files.tar", tarfile.PAX_FORMAT)
write_tar("files.gnu.tar", tarfile.GNU_FORMAT)
with open("files.tar", "rb") as f:
    tar = f.read()
with open("files.tar.gz", "wb") as f:
    f.write(gzip.compress(tar, 9, mtime=0))
with zipfile.ZipFile("files.zip", "w", zipfile.ZIP_DEFLATED) as archive:
    archive.writestr(zipfile.ZipInfo("set/"), b"")
    for path, content in packed:
        info = zipfile.ZipInfo(path)
        info.compress_type = zipfile.ZIP_DEFLATED if len(content) > 100 else zipfile.ZIP_STORED
        archive.writestr(info, content)


def write_zstd(name, content):
    with open(name, "wb") as f:
        f.write(subprocess.run(["zstd", "-19", "--check", "-c"], input=content, check=True, stdout=subprocess.PIPE).stdout)


write_zstd("files.tar.zst", tar)
write_zstd("letters.zst", bytes(ord("a") + i % 7 + i % 11 for i in range(50000)))
write_zstd("nothing.zst", b"")
