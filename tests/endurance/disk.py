"""A small file system for the tables, which can be filled up; a plain directory if none may be mounted."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

_SIZE = 12 * 1024**3
_LEAST = 4096


@dataclass(frozen=True, slots=True)
class Disk:
    """Where the tables are.

    Args:
        path: The directory.
        is_own: Whether the directory is a file system of its own.
    """

    path: Path
    is_own: bool

    @classmethod
    def at(cls, path: Path) -> "Disk":
        """A file system in a sparse file next to the directory, if this user may mount one."""
        path.mkdir()
        image = path.with_suffix(".image")
        if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
            return cls(path, False)
        with image.open("wb") as file:
            file.truncate(_SIZE)
        commands = (["mkfs.ext4", "-q", "-m", "0", str(image)], ["mount", "-o", "loop", str(image), str(path)])
        done = all(subprocess.run(command, check=False, capture_output=True).returncode == 0 for command in commands)
        if not done:
            image.unlink()
        return cls(path, done)

    @property
    def _filler(self) -> Path:
        return self.path / "filler"

    def fill(self) -> None:
        """Takes every free block."""
        with self._filler.open("wb") as file:
            step, end = 1024**3, 0
            while step >= _LEAST:
                try:
                    os.posix_fallocate(file.fileno(), end, step)
                    end += step
                except OSError:
                    step //= 2

    def free(self) -> None:
        self._filler.unlink(missing_ok=True)

    def leave(self) -> None:
        if self.is_own:
            subprocess.run(["umount", "--lazy", str(self.path)], check=False, capture_output=True)
            self.path.with_suffix(".image").unlink(missing_ok=True)
