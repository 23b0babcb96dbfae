"""A Mixtral in PyTorch as transformers writes it, in single precision on one thread of the CPU.

`step_torch.py CASE`, with the sizes as a JSON object, prints a line of JSON when it is ready, then runs a training step for
every line that it reads and prints a line of JSON for it. Peaks are of resident memory above what the process held before
the model was made.
"""

import gc
import json
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight, 1e-6)


def half_turned(x):
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.width = c["head"]
        self.q = nn.Linear(c["hidden"], c["heads"] * self.width, bias=False)
        self.k = nn.Linear(c["hidden"], c["kv_heads"] * self.width, bias=False)
        self.v = nn.Linear(c["hidden"], c["kv_heads"] * self.width, bias=False)
        self.o = nn.Linear(c["heads"] * self.width, c["hidden"], bias=False)

    def forward(self, x, cos, sin):
        batch, sequence, _ = x.shape
        q, k, v = (p(x).view(batch, sequence, -1, self.width).transpose(1, 2) for p in (self.q, self.k, self.v))
        q = q * cos + half_turned(q) * sin
        k = k * cos + half_turned(k) * sin
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o(y.transpose(1, 2).reshape(batch, sequence, -1))


class Expert(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate = nn.Linear(c["hidden"], c["ffn"], bias=False)
        self.up = nn.Linear(c["hidden"], c["ffn"], bias=False)
        self.down = nn.Linear(c["ffn"], c["hidden"], bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Experts(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.active = c["active"]
        self.router = nn.Linear(c["hidden"], c["experts"], bias=False)
        self.experts = nn.ModuleList(Expert(c) for _ in range(c["experts"]))

    def forward(self, x):
        shape = x.shape
        x = x.view(-1, shape[-1])
        scores = F.softmax(self.router(x), dim=-1)
        weights, chosen = torch.topk(scores, self.active, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        y = torch.zeros_like(x)
        mask = F.one_hot(chosen, len(self.experts)).permute(2, 1, 0)
        for number, expert in enumerate(self.experts):
            place, token = torch.where(mask[number])
            y.index_add_(0, token, expert(x[token]) * weights[token, place, None])
        return y.view(shape)


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.attention_norm, self.attention = RmsNorm(c["hidden"]), Attention(c)
        self.experts_norm, self.experts = RmsNorm(c["hidden"]), Experts(c)

    def forward(self, x, cos, sin):
        x = x + self.attention(self.attention_norm(x), cos, sin)
        return x + self.experts(self.experts_norm(x))


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embedding = nn.Embedding(c["vocab"], c["hidden"])
        self.layers = nn.ModuleList(Layer(c) for _ in range(c["layers"]))
        self.norm, self.head = RmsNorm(c["hidden"]), nn.Linear(c["hidden"], c["vocab"], bias=False)
        self.register_buffer("frequencies", 1e4 ** (-torch.arange(0, c["head"], 2) / c["head"]))
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids):
        angles = torch.outer(torch.arange(ids.shape[1]).float(), self.frequencies).repeat(1, 2)
        cos, sin = angles.cos(), angles.sin()
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.head(self.norm(x))


class Training:
    def __init__(self, c):
        self.model = Model(c)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1,
            fused=c["optimizer"] == "fused", foreach=c["optimizer"] == "foreach")
        self.ids = torch.randint(c["vocab"], (c["batch"], c["sequence"]))
        self.labels = torch.randint(c["vocab"], (c["batch"] * c["sequence"],))

    def step(self):
        logits = self.model(self.ids)
        loss = F.cross_entropy(logits.view(-1, logits.shape[-1]), self.labels)
        del logits
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()


def resident(what):
    """Bytes as /proc/self/status has them: of now (VmRSS) or at most (VmHWM)."""
    with open("/proc/self/status") as status:
        return 1024 * next(int(line.split()[1]) for line in status if line.startswith(what + ":"))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    case = json.loads(sys.argv[1])
    # What libraries load and set aside when they are first used is not the model's.
    small = Training(case | {"hidden": 32, "head": 8, "ffn": 32, "vocab": 64, "batch": 1, "sequence": 32})
    small.step()
    small.step()
    del small
    gc.collect()
    baseline = resident("VmRSS")
    training = Training(case)
    parameters = sum(parameter.numel() for parameter in training.model.parameters())
    print(json.dumps({"version": torch.__version__, "parameters": parameters}), flush=True)
    for _ in sys.stdin:
        with open("/proc/self/clear_refs", "w") as clear:
            clear.write("5")
        start = time.perf_counter()
        loss = training.step()
        seconds = time.perf_counter() - start
        print(json.dumps({"seconds": seconds, "peak": resident("VmHWM") - baseline, "loss": loss}), flush=True)


main()
