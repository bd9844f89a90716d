"""The same work in Python: `pictures.py WHAT FILE...` does it once for every file and prints the milliseconds as JSON.

WHAT is `pillow-thumbnail`, `vips-thumbnail`, `pillow-hash` or `scikit-compare` (which takes two files). What is not
installed is printed as null.
"""

import io
import json
import sys
import time


def pillow_thumbnail(path):
    from PIL import Image

    with Image.open(path) as picture:
        picture = picture.convert("RGB")
        for side in (512, 256):
            picture.thumbnail((side, side), Image.LANCZOS)
            picture.save(io.BytesIO(), "JPEG", quality=80)


def vips_thumbnail(path):
    import pyvips

    # Kept in memory: it is a stream otherwise, which can be read once.
    picture = pyvips.Image.thumbnail(path, 512).copy_memory()
    picture.jpegsave_buffer(Q=80)
    picture.thumbnail_image(256).jpegsave_buffer(Q=80)


def pillow_hash(path):
    from PIL import Image

    with Image.open(path) as picture:
        grey = picture.convert("L")
        for size in ((9, 8), (8, 9)):
            list(grey.resize(size, Image.LANCZOS).getdata())


def scikit_compare(one, other):
    import numpy
    from PIL import Image
    from skimage.metrics import structural_similarity

    one, other = (numpy.asarray(Image.open(path).convert("L").resize((512, 512))) for path in (one, other))
    structural_similarity(one, other)


def main():
    what, files = sys.argv[1], sys.argv[2:]
    work = {
        "pillow-thumbnail": pillow_thumbnail,
        "vips-thumbnail": vips_thumbnail,
        "pillow-hash": pillow_hash,
        "scikit-compare": scikit_compare,
    }[what]
    tasks = [files] if work is scikit_compare else [[file] for file in files]
    try:
        work(*tasks[0])  # Loading the libraries is not what is measured.
        begun = time.perf_counter()
        for task in tasks:
            work(*task)
        print(json.dumps((time.perf_counter() - begun) * 1000 / len(tasks)))
    except ImportError:
        print("null")


main()
