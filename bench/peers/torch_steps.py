"""Steps of PyTorch that are timed, for torch_train.py, torch_ddp.py, torch_peft.py and torch_cct.py."""
import resource
import time


def train_step(loss_of, optimizer):
    """One training step; its loss."""
    optimizer.zero_grad(set_to_none=True)
    loss = loss_of()
    loss.backward()
    optimizer.step()
    return loss


def timed(loss_of, optimizer, steps, warm=2):
    """Seconds of each training step after the first `warm` ones, sorted, and the last loss."""
    times = []
    for _ in range(steps + warm):
        start = time.perf_counter()
        loss = train_step(loss_of, optimizer)
        times.append(time.perf_counter() - start)
    return sorted(times[warm:]), loss.item()


def peak_megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
