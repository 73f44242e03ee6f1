#!/usr/bin/env python3
"""Images as Pillow resizes them and transformers prepares them, for tests/datasets/images/preparation_test.cpp.

    python3 -m venv oracle && oracle/bin/pip install pillow==13.0.0 torch==2.15.0 transformers==5.23.0
    oracle/bin/python tests/golden/images.py > tests/golden/images.json

Large results are kept as the SHA-256 of their bytes: they are equal bit for bit, or they are not.
"""
import hashlib
import json

import numpy as np
from PIL import Image
from transformers import ViTImageProcessorPil

g = np.random.default_rng(1)


def resized(side, to, filter_name):
    pixels = g.integers(0, 256, (side, side), dtype=np.uint8)
    if side % 2 == 0:
        pixels[: side // 2] = 255 * (pixels[: side // 2] > 127)  # edges, at which bicubic goes beyond 0 and 255
    filters = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}
    out = np.asarray(Image.fromarray(pixels).resize((to, to), filters[filter_name]))
    found = {"filter": filter_name, "from": side, "to": to, "pixels": pixels.flatten().tolist(),
             "sha256": hashlib.sha256(out.tobytes()).hexdigest()}
    if to <= 12:
        found["resized"] = out.flatten().tolist()
    return found


def prepared(options):
    pixels = g.integers(0, 256, (3, 5, 5), dtype=np.uint8)
    processor = ViTImageProcessorPil(size={"height": 7, "width": 7}, **options)
    image = Image.fromarray(pixels.transpose(1, 2, 0))
    values = np.asarray(processor(image, return_tensors="np")["pixel_values"][0], dtype=np.float32)
    return {"config": json.loads(processor.to_json_string()), "pixels": pixels.flatten().tolist(), "values": values.flatten().astype(float).tolist()}


print(json.dumps({
    "resized": [resized(side, to, name) for name in ("bilinear", "bicubic")
                for side, to in ((4, 12), (5, 8), (8, 3), (9, 4), (7, 7), (1, 3), (6, 5), (28, 32), (32, 224))],
    "prepared": [prepared({}), prepared({"resample": 3, "image_mean": [0.485, 0.456, 0.406],
                                         "image_std": [0.229, 0.224, 0.225]}),
                 prepared({"do_normalize": False})],
}))
