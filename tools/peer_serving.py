# SPDX-License-Identifier: Apache-2.0
"""A peer of tools/compare_serving: FastAPI and uvicorn before sentence-transformers, as people write it. Answers POST /embed as Bascule does.

  peer_serving.py FOLDER PORT [--sorted]

It runs with a Python that has fastapi, uvicorn and sentence_transformers. A request is embedded when it comes, its texts as one batch. With --sorted requests
that wait are taken together, up to 64 texts, and batches are of texts of like length, as inference servers make them.
"""
import argparse
import asyncio
import concurrent.futures
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import fastapi
import sentence_transformers
import torch
import uvicorn

MOST_TEXTS = 64


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("port", type=int)
    parser.add_argument("--sorted", action="store_true")
    return parser.parse_args()


def main():
    arguments = read_arguments()
    torch.set_num_threads(os.cpu_count())
    model = sentence_transformers.SentenceTransformer(arguments.folder, device="cpu")
    app, waiting, worker = fastapi.FastAPI(), asyncio.Queue(), concurrent.futures.ThreadPoolExecutor(1)

    def embed(texts):  # encode() sorts by length within a call
        return model.encode(texts, batch_size=MOST_TEXTS // 4 if arguments.sorted else MOST_TEXTS, show_progress_bar=False).tolist()

    async def take_together():
        while True:
            requests = [await waiting.get()]
            while not waiting.empty() and sum(len(texts) for texts, _ in requests) < MOST_TEXTS:
                requests.append(waiting.get_nowait())
            vectors = await asyncio.get_running_loop().run_in_executor(worker, embed, [text for texts, _ in requests for text in texts])
            for texts, answer in requests:
                answer.set_result(vectors[:len(texts)])
                vectors = vectors[len(texts):]

    @app.post("/embed")
    async def answer_embed(request: fastapi.Request):
        inputs = (await request.json())["inputs"]
        texts = [inputs] if isinstance(inputs, str) else inputs
        loop = asyncio.get_running_loop()
        if not arguments.sorted:
            return await loop.run_in_executor(worker, embed, texts)
        if not hasattr(app, "taking"):
            app.taking = asyncio.create_task(take_together())
        answer = loop.create_future()
        waiting.put_nowait((texts, answer))
        return await answer

    @app.get("/health")
    async def answer_health():
        return {}

    uvicorn.run(app, host="127.0.0.1", port=arguments.port, log_level="error")


if __name__ == "__main__":
    main()
