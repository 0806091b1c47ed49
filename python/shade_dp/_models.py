"""What a run starts from: a name, a folder, or a model of transformers or PEFT in memory."""
from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import re
import shutil
from collections.abc import Iterator, Mapping
from typing import Any, Optional


class Start:
    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._named: Optional[str] = None
        self._model: Any = None
        self._adapter: Optional[dict[str, Any]] = None
        self._tokenizer = tokenizer
        if isinstance(model, (str, os.PathLike)):
            self._named = os.fspath(model)
        elif _is_a(model, "peft", "PeftModel"):
            self._adapter = _adapter_options(model)
            self._model = model
        elif _is_a(model, "transformers", "PreTrainedModel"):
            self._model = model
        else:
            raise TypeError(f"model is a {type(model).__module__}.{type(model).__name__}; expected a folder, a name (shade train "
                            f"--help), or a model of transformers or PEFT. Other modules have no counterpart in the program")
        if self._model is not None and tokenizer is None:
            raise ValueError("a model in memory needs its tokenizer: Trainer(model, data, tokenizer=AutoTokenizer.from_pretrained(...))")
        if self._named is not None and not isinstance(tokenizer, (str, os.PathLike, type(None))):
            raise TypeError(f"tokenizer is a {type(tokenizer).__name__}; expected its folder beside a model that is named")
        if self._adapter is None and self._model is not None:
            frozen = next((name for name, weight in self._model.named_parameters() if not weight.requires_grad), None)
            if frozen is not None:
                raise ValueError(f"{frozen} does not require a gradient; the program trains all weights of a model, or adapters: "
                                 "pass a PEFT model or lora_rank=...")

    @property
    def name(self) -> str:
        """For a folder's name: no path, and no character that a shell asks about."""
        of = self._named if self._named is not None else self._base().config.model_type
        return re.sub(r"[^A-Za-z0-9_.-]", "_", pathlib.PurePath(of.rstrip("/")).name)[:40] or "model"

    def identity(self) -> str:
        tokenizer = self._tokenizer
        if hasattr(tokenizer, "get_vocab"):
            tokenizer = [type(tokenizer).__name__, sorted(tokenizer.get_vocab().items()), tokenizer.special_tokens_map]
        if self._named is not None:
            return f"{self._named} {tokenizer}"
        import torch

        out = hashlib.blake2b(str((tokenizer, self._adapter)).encode(), digest_size=8)
        for name, value in sorted(self._base().state_dict().items()):
            out.update(name.encode())
            out.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
        return out.hexdigest()

    def named(self) -> dict[str, Any]:
        """The options that name a model which is not in memory."""
        if self._named is None:
            raise ValueError("a model in memory has no name to plan with; save_pretrained() it and pass the folder as model=")
        return {"model": self._named}

    def options(self, output: pathlib.Path, given: Mapping[str, Any]) -> dict[str, Any]:
        """Those of `shade train`: what it starts from, and where it writes what load() reads. Saves a model in memory."""
        out: dict[str, Any] = {"model": self._named if self._named is not None else self._saved(output), **(self._adapter or {})}
        if isinstance(self._tokenizer, (str, os.PathLike)):
            out["tokenizer"] = self._tokenizer
        return {**out, self._export: self._exported(output, given)}

    @property
    def _export(self) -> str:
        return "export" if self._adapter is None else "export_adapter"

    def _exported(self, output: pathlib.Path, given: Mapping[str, Any]) -> pathlib.Path:
        return pathlib.Path(given.get(self._export) or output / ("model" if self._adapter is None else "adapter"))

    @contextlib.contextmanager
    def written_again(self, output: pathlib.Path, given: Mapping[str, Any]) -> Iterator[None]:
        """Puts the export of an earlier end aside: a run that gets more steps writes another. A run that has no more
        steps to make writes none, and the earlier one comes back."""
        place = self._exported(output, given)
        aside = place.with_name(place.name + ".before")
        if not place.is_relative_to(output):  # the caller's: the program says that it is there
            yield
            return
        if aside.is_dir() and not place.exists():  # of a start that was killed
            aside.rename(place)
        shutil.rmtree(aside, ignore_errors=True)
        if place.is_dir():
            place.rename(aside)
        try:
            yield
        finally:
            if not place.exists() and aside.is_dir():
                aside.rename(place)
            shutil.rmtree(aside, ignore_errors=True)

    def load(self, output: pathlib.Path, given: Mapping[str, Any]) -> Any:
        import transformers

        exported = self._exported(output, given)
        if not exported.is_dir():
            raise FileNotFoundError(f"{exported} is written with the last step; call train() until it returns")
        if self._adapter is None:
            (architecture,) = transformers.AutoConfig.from_pretrained(exported).architectures
            return getattr(transformers, architecture).from_pretrained(exported)
        import peft

        base = type(self._base()).from_pretrained(_start_of(output))
        return peft.PeftModel.from_pretrained(base, exported)

    def _base(self) -> Any:
        return self._model.get_base_model() if self._adapter is not None else self._model

    def _saved(self, output: pathlib.Path) -> pathlib.Path:
        folder = _start_of(output)
        fresh = folder.with_name(folder.name + ".new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True, mode=0o700)
        if self._adapter is None:
            self._model.save_pretrained(fresh)
        else:
            base = self._base()
            base.save_pretrained(fresh, state_dict=_without_adapters(base.state_dict()))
        tokenizer = self._tokenizer
        if hasattr(tokenizer, "save_pretrained"):
            tokenizer.save_pretrained(fresh)
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
        return folder


# Of a LoraConfig: what is passed on, and what says nothing of the training.
READ = {"r", "lora_alpha", "target_modules", "task_type", "inference_mode", "base_model_name_or_path", "revision", "auto_mapping",
        "peft_version", "peft_type"}


def _start_of(output: pathlib.Path) -> pathlib.Path:
    return output.with_name(output.name + ".start")  # beside the run: neither may contain the other


def _is_a(model: Any, package: str, name: str) -> bool:
    """Without importing the package: a model of it has imported it."""
    return any(kind.__name__ == name and kind.__module__.split(".")[0] == package for kind in type(model).__mro__)


def _without_adapters(state: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace(".base_layer.", ".").replace(".original_module.", "."): value for name, value in state.items()
            if ".lora_" not in name and ".modules_to_save." not in name}


def _adapter_options(model: Any) -> dict[str, Any]:
    """A LoRA adapter as options of `shade train`. Raises ValueError for what the program doesn't train."""
    if len(model.peft_config) != 1:
        raise ValueError(f"the model has the adapters {', '.join(model.peft_config)}; expected one")
    (config,) = model.peft_config.values()
    if str(getattr(config.peft_type, "value", config.peft_type)) != "LORA":
        raise ValueError(f"the adapter is of type {config.peft_type}; expected LoRA")
    import peft

    blank: Any = peft.LoraConfig()
    usual = blank.to_dict()
    for key, found in config.to_dict().items():
        if key in READ or found == usual.get(key) or not found and not usual.get(key):
            continue
        if key == "modules_to_save" and set(found) <= {"score", "classifier"}:  # the head, which is always trained
            continue
        raise ValueError(f"LoraConfig.{key} is {found!r}, which the program does not have; expected {usual.get(key)!r}")
    for name, value in model.state_dict().items():
        if ".lora_B." in name and bool(value.any()):
            raise ValueError(f"the adapter was trained before ({name} is not 0), and a run starts with new ones: pass "
                             f"model.merge_and_unload() for adapters on top of it")
    targets = config.target_modules
    return {"lora_rank": config.r, "lora_alpha": config.lora_alpha,
            "lora_targets": [targets] if isinstance(targets, str) else sorted(targets)}
