"""PyTorch's times of what gpu_smoke timed: products of the same sizes in bf16, and attention, norm, activation and AdamW of the
paper's rank. `torch_speed.py gpu_smoke.json OUT.json` writes them, and prints ours beside them. Needs torch; `--device cpu`
runs it without a GPU, to see that it does."""

import argparse, json, statistics, time
import torch
import torch.nn.functional as F


def seconds(device, call, at_least=5, budget=1.0):
    """The median of some runs, each from an idle device to one that is idle again."""
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    call(); wait()
    spent = []
    while len(spent) < at_least and sum(spent) < budget:
        begun = time.perf_counter()
        call(); wait()
        spent.append(time.perf_counter() - begun)
    return statistics.median(spent)


def grouped(a, b, groups, is_weight):
    """Products of groups that have rows alike: torch's own grouped one where it has one, or one by one."""
    if is_weight:
        # In f32 of bf16, as gradients of weights are.
        a, b = (x.tensor_split(groups, axis) for x, axis in [(a, 1), (b, 0)])
        out = [torch.zeros(x.shape[0], y.shape[1], device=x.device, dtype=torch.float32) for x, y in zip(a, b)]
        def one_by_one():
            for c, x, y in zip(out, a, b):
                c += x @ y
        return one_by_one
    weights = torch.stack([b] * groups)
    rows = [len(part) for part in a.tensor_split(groups)]
    ends = torch.tensor(rows, device=a.device, dtype=torch.int32).cumsum(0, dtype=torch.int32)
    at_once = lambda: torch._grouped_mm(a, weights, offs=ends)
    one_by_one = lambda: torch.cat([x @ w for x, w in zip(a.split(rows), weights)])
    try:
        at_once()
        return at_once
    except (AttributeError, RuntimeError):
        return one_by_one


def products(rows, device, most):
    """The products that took longest, once each."""
    for row in [row for row in rows if row["product"]][:most]:
        m, n, k = row["product"]
        a, b = (torch.randn(*shape, device=device, dtype=torch.bfloat16) for shape in [(m, k), (k, n)])
        groups = row.get("groups")
        each = seconds(device, grouped(a, b, groups, row["is_weight"]) if groups else lambda: a @ b)
        ours = row["seconds"] / row["count"]
        yield {"what": row["what"], "ours_seconds": ours, "torch_seconds": each, "torch_tflops": 2e-12 * m * n * k / each}


def others(rows, device, small):
    """Operations as a layer of DeepSeek-V3 has them on a rank of TP2: 64 heads, 4096 tokens."""
    tokens, heads, width, value, hidden, experts_ffn = (64, 2, 24, 16, 64, 32) if small else (4096, 64, 192, 128, 7168, 2048)
    parameters = 1 << (16 if small else 28)
    make = lambda *shape, dtype=torch.bfloat16: torch.randn(*shape, device=device, dtype=dtype, requires_grad=True)
    q, k, v = make(1, heads, tokens, width), make(1, heads, tokens, width), make(1, heads, tokens, value)
    x, gate, up = make(tokens, hidden), make(4 * tokens, experts_ffn), make(4 * tokens, experts_ffn)
    weight = make(hidden)

    def backward(call):
        out = call(); d = torch.ones_like(out)
        return lambda: out.backward(d, retain_graph=True)

    attend = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)
    norm = lambda: F.rms_norm(x, (hidden,), weight)
    activate = lambda: F.silu(gate) * up
    master = [torch.nn.Parameter(make(parameters, dtype=torch.float32).detach())]
    master[0].grad = torch.randn_like(master[0])
    adamw = torch.optim.AdamW(master, fused=device == "cuda")
    calls = {
        "attention": ("attend", attend),
        "attention, backward": ("attend_queries + attend_keys", backward(attend)),
        "norm": ("norm_forward", norm),
        "activation": ("activate", activate),
        f"AdamW of {parameters} parameters": ("adamw", adamw.step),
    }
    ours = {row["what"].removeprefix("the launch of ").strip("`"): row["seconds"] / row["count"] for row in rows}
    for name, (kernels, call) in calls.items():
        row = {"what": f"{name} ({kernels})", "ours_seconds": sum(ours.get(one, 0.0) for one in kernels.split(" + "))}
        try:
            with torch.no_grad() if "backward" not in name else torch.enable_grad():
                row["torch_seconds"] = seconds(device, call)
        except RuntimeError as error:
            row["error"] = str(error).splitlines()[0]
        yield row


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("measured")
    arguments.add_argument("out")
    arguments.add_argument("--device", default="cuda")
    arguments.add_argument("--products", type=int, default=24)
    given = arguments.parse_args()
    rows = json.load(open(given.measured))["rank"]["work"]
    small = given.device != "cuda"
    found = [*products(rows, given.device, given.products), *others(rows, given.device, small)]
    name = torch.cuda.get_device_name() if given.device == "cuda" else given.device
    json.dump({"torch": torch.__version__, "gpu": name, "rows": found}, open(given.out, "w"), indent=2)
    print(f"{'ms each':58} {'ours':>10} {'PyTorch':>10}")
    for row in found:
        theirs = f"{1e3 * row['torch_seconds']:10.3f}" if "torch_seconds" in row else row["error"]
        print(f"{row['what']:58} {1e3 * row['ours_seconds']:10.3f} {theirs}")


main()
