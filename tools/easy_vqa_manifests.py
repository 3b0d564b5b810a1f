#!/usr/bin/env python3
"""Writes easy-VQA's questions as manifests for recipes/vision/vqa_*.yaml.

  tools/easy_vqa_manifests.py $LITHE_DATA/multimodal/easy-vqa OUTPUT_DIRECTORY

A line of train.jsonl and test.jsonl is a question, its answer and its picture: {"image": "....u8.gz#17", "text": ..., "label": ...}.
"""
import json
import pathlib
import sys


def main():
    data, out = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    for part in ("train", "test"):
        questions = json.loads((data / f"{part}-questions.json").read_text())
        with open(out / f"{part}.jsonl", "w") as manifest:
            for question, answer, picture in questions:
                image = f"{data / part}-images.u8.gz#{picture}"
                manifest.write(json.dumps({"image": image, "text": question, "label": answer}) + "\n")


if __name__ == "__main__":
    main()
