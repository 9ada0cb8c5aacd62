"""X-SDD, hot-rolled steel strip in seven classes: where it is, and how it is laid out for a test.

The pictures (Apache-2.0, Feng et al. 2021) are not part of the repository.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from PIL import Image

PICTURES = Path(__file__).parents[2] / "shared" / "data" / "xsdd" / "images"


def lay_out(source: Path, target: Path) -> Path:
    """Copy each distinct picture into its class folder, under a number, with one compression."""
    shutil.rmtree(target, ignore_errors=True)
    files = sorted(path for path in source.glob("*/*") if path.is_file())
    table = None
    for path in files:
        with Image.open(path) as picture:
            if picture.format == "JPEG":
                table = picture.quantization, picture.layer[0][1:3]  # type: ignore[attr-defined]
                break
    seen: set[bytes] = set()
    for number, path in enumerate(files):
        with Image.open(path) as picture:
            is_jpeg, pixels = picture.format == "JPEG", picture.convert("RGB")
        if (content := pixels.tobytes()) in seen:
            continue
        seen.add(content)
        place = target / path.parent.name / f"{number:05}"
        place.parent.mkdir(parents=True, exist_ok=True)
        if is_jpeg:
            shutil.copyfile(path, place.with_suffix(".jpg"))
        elif table is None:
            pixels.save(place.with_suffix(".png"))
        else:
            halved = table[1] == (2, 2)
            how = {"qtables": table[0], "subsampling": "4:2:0" if halved else "4:4:4"}
            pixels.save(place.with_suffix(".jpg"), **how)
    print(f"{len(seen)} distinct pictures of {len(files)}", flush=True)
    return target
