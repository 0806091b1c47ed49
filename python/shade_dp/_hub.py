"""Models from and to the Hugging Face hub, by huggingface_hub."""
from __future__ import annotations

import os
import pathlib
from typing import Optional, Union

from . import _optional, _run

Path = Union[str, "os.PathLike[str]"]
# What the program reads of a model's folder.
READ = ["config.json", "generation_config.json", "*.safetensors", "*.safetensors.index.json", "tokenizer*", "special_tokens_map.json",
        "vocab.json", "merges.txt", "chat_template*", "adapter_config.json"]


def pull(repository: str, *, revision: Optional[str] = None) -> pathlib.Path:
    """Downloads a model to the local cache of the hub and returns its folder: Trainer(pull("ORGANISATION/MODEL"), ...)."""
    return pathlib.Path(_optional.load("huggingface_hub").snapshot_download(repository, revision=revision, allow_patterns=READ))


def push(folder: Path, repository: str, *, private: bool = True, without_privacy: bool = False,
         message: str = "Upload a release") -> str:
    """Uploads what `shade release` wrote, and nothing else; returns the address of the commit.

    The files must be those that the statement in the folder is about (`shade release --check`): a run's folder, a
    changed file or one that was added is refused; a release without a guarantee too, unless `without_privacy` is given.
    """
    hub = _optional.load("huggingface_hub")
    try:
        checked = _run.run("release", check=os.fspath(folder))
    except _run.ShadeError as fault:  # files that differ are no error of the program
        found = [line for line in fault.output.splitlines() if line and not line.startswith("privacy.json has SHA-256")]
        raise _run.ShadeError(fault.command, fault.status, f"shade release: {'; '.join(found)}" if fault.status == 1 else fault.output) from None
    if not checked["statement"]["guarantee"] and not without_privacy:
        raise ValueError(f"{os.fspath(folder)} states no privacy guarantee: {checked['statement']['no_guarantee']}; "
                         "push(..., without_privacy=True) uploads it")
    api = hub.HfApi()
    api.create_repo(repository, private=private, exist_ok=True)
    if private and not api.repo_info(repository).private:
        raise ValueError(f"{repository} exists and is public; push(..., private=False) uploads there")
    done = api.upload_folder(folder_path=folder, repo_id=repository, commit_message=message,
                             commit_description=f"SHA-256 of privacy.json: {checked['statement_sha256']}")
    return str(done.commit_url)
