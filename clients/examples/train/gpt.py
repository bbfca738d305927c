"""A small GPT on the project's own documents: predicts the next character.

    torchrun --nproc-per-node 2 clients/examples/train/gpt.py --steps 50

Data parallel: each rank reads other places of the text, and their gradients are averaged through the network.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

import common

DOCUMENTS = Path(__file__).resolve().parents[3] / "docs"
CONTEXT, BATCH = 64, 16


class Block(nn.Module):
    """Causal attention, and a feed-forward layer."""

    def __init__(self, wide: int, heads: int) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(wide), nn.LayerNorm(wide)
        self.attention = nn.MultiheadAttention(wide, heads, batch_first=True)
        self.layers = nn.Sequential(nn.Linear(wide, 4 * wide), nn.GELU(), nn.Linear(4 * wide, wide))
        self.register_buffer("hidden", torch.ones(CONTEXT, CONTEXT).triu(1).bool(), persistent=False)

    def forward(self, seen: torch.Tensor) -> torch.Tensor:
        """Of the same shape: batch, place, width."""
        places = seen.shape[1]
        normal = self.before(seen)
        found, _ = self.attention(
            normal, normal, normal, attn_mask=self.hidden[:places, :places], need_weights=False
        )
        seen = seen + found
        return seen + self.layers(self.after(seen))


class Gpt(nn.Module):
    """Numbers of characters in, scores of the next character out."""

    def __init__(self, characters: int, wide: int, layers: int) -> None:
        super().__init__()
        self.of_character, self.of_place = nn.Embedding(characters, wide), nn.Embedding(CONTEXT, wide)
        self.blocks = nn.Sequential(*(Block(wide, max(1, wide // 16)) for _ in range(layers)))
        self.last, self.scores = nn.LayerNorm(wide), nn.Linear(wide, characters)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Of the shape: batch, place, characters."""
        places = torch.arange(text.shape[1])
        return self.scores(self.last(self.blocks(self.of_character(text) + self.of_place(places))))


def main() -> None:
    """Trains."""
    parser = common.arguments("A small GPT on the project's documents", 200)
    parser.add_argument("--wide", type=int, default=64, help="width of the layers (%(default)s)")
    parser.add_argument("--layers", type=int, default=2, help="layers of attention (%(default)s)")
    parser.add_argument("--tensorboard", help="rank 0 writes each training's losses below this directory")
    options = parser.parse_args()
    whole = "".join(path.read_text() for path in sorted(DOCUMENTS.glob("*.md")))
    characters = sorted(set(whole))
    number_of = {character: number for number, character in enumerate(characters)}
    text = torch.tensor([number_of[character] for character in whole])
    loss_of = nn.CrossEntropyLoss()

    def step(net: Any, number: int) -> float:
        # Each rank reads at places of its own, the same ones in every run.
        source = torch.Generator().manual_seed(options.seed + number * common.RANKS + common.RANK)
        starts = torch.randint(len(text) - CONTEXT - 1, (BATCH,), generator=source)
        read = torch.stack([text[start : start + CONTEXT + 1] for start in starts])
        loss = loss_of(net(read[:, :-1]).flatten(0, 1), read[:, 1:].flatten())
        loss.backward()
        return loss.item()

    common.trainings(
        options,
        lambda: Gpt(len(characters), options.wide, options.layers),
        step,
        lambda weights: torch.optim.AdamW(weights, lr=3e-3),
    )


if __name__ == "__main__":
    main()
