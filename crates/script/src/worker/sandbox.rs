//! The sandbox of a worker, entered for good before it reads its first order. A memory error in the engine,
//! which is written in C and runs code of any user who may register scripts, must not read a key or data, nor
//! connect anywhere.
//!
//! The kernel is asked for the layers of [`Layer`], strongest last. `seccomp` alone leaves only the open
//! socket, memory and time: no call that takes a path, makes a socket, starts a process or looks into another
//! one. Two filters are installed. One allows the calls of a worker and answers EPERM to everything else,
//! because C libraries make many calls that they can do without (the time zone, the number of processors).
//! The other ends a worker that makes a call which only a compromised worker makes. A layer that the kernel
//! refuses is missing from the answer, and the server logs it.
//!
//! Not used: namespaces, because they need either the rights dropped here or user namespaces, which many
//! systems forbid, and because without `socket` nothing can connect anyway; Landlock, because it guards paths
//! and no call with a path is left.

#[cfg(not(target_os = "linux"))]
use crate::confined::Confined;

#[cfg(target_os = "linux")]
pub use linux::confine;

/// No confinement on other systems.
#[cfg(not(target_os = "linux"))]
pub fn confine() -> Confined {
    Confined::default()
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeMap;

    use rustix::process::{DumpableBehavior, getpid, set_dumpable_behavior};
    use rustix::thread::{
        CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, no_new_privs,
        remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
    };
    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
        SeccompRule, TargetArch, apply_filter,
    };

    use crate::confined::{Confined, Layer};

    /// Gives up everything that a worker does not need, permanently and for this process. Returns the layers
    /// that the kernel granted.
    pub fn confine() -> Confined {
        let layers: [(Layer, fn() -> bool); 4] = [
            (Layer::Capabilities, drop_capabilities),
            (Layer::NotDumpable, || set_dumpable_behavior(DumpableBehavior::NotDumpable).is_ok()),
            (Layer::NoNewPrivileges, || {
                set_no_new_privs(true).is_ok() && no_new_privs().is_ok_and(|holds| holds)
            }),
            (Layer::Seccomp, || install_filters().is_some()),
        ];
        layers.into_iter().fold(
            Confined::default(),
            |confined, (layer, ask)| {
                if ask() { confined.with(layer) } else { confined }
            },
        )
    }

    fn drop_capabilities() -> bool {
        // Both need rights that an ordinary user's server lacks; then there is nothing to drop.
        let _ = clear_ambient_capability_set();
        for capability in CapabilitySet::all().iter() {
            let _ = remove_capability_from_bounding_set(capability);
        }
        let none = CapabilitySets {
            effective: CapabilitySet::empty(),
            permitted: CapabilitySet::empty(),
            inheritable: CapabilitySet::empty(),
        };
        set_capabilities(None, none).is_ok() && capabilities(None).is_ok_and(|left| left == none)
    }

    fn install_filters() -> Option<()> {
        let arch = TargetArch::try_from(std::env::consts::ARCH).ok()?;
        let filter = |rules, match_action, mismatch_action| {
            let filter = SeccompFilter::new(rules, mismatch_action, match_action, arch).ok()?;
            BpfProgram::try_from(filter).ok()
        };
        let refuse = SeccompAction::Errno(libc::EPERM as u32);
        // The strictest answer of several filters counts. The filter that refuses is installed last, because
        // it also refuses further filters.
        let ends = filter(hostile(), SeccompAction::KillProcess, SeccompAction::Allow)?;
        let refuses = filter(allowed()?, SeccompAction::Allow, refuse)?;
        apply_filter(&ends).ok()?;
        apply_filter(&refuses).ok()
    }

    type Rules = BTreeMap<i64, Vec<SeccompRule>>;

    /// The system calls of a serving worker.
    fn allowed() -> Option<Rules> {
        // An empty list means no conditions.
        let mut rules: Rules = ALLOWED.iter().map(|call| (*call, vec![])).collect();
        let equals = |argument, value| {
            SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value).ok()
        };
        let never_executable = SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64);
        let never_executable = SeccompCondition::new(2, SeccompCmpArgLen::Dword, never_executable, 0).ok()?;
        let own_limits = equals(0, 0)?;
        let own_signals = equals(0, getpid().as_raw_nonzero().get() as u64)?;
        for (call, condition) in [
            (libc::SYS_mmap, never_executable.clone()),
            (libc::SYS_mprotect, never_executable),
            // Only its own limits and signals, which it needs to abort.
            (libc::SYS_prlimit64, own_limits),
            (libc::SYS_tgkill, own_signals),
        ] {
            rules.insert(call, vec![SeccompRule::new(vec![condition]).ok()?]);
        }
        Some(rules)
    }

    fn hostile() -> Rules {
        HOSTILE.iter().map(|call| (*call, vec![])).collect()
    }

    /// Allowed with any arguments.
    const ALLOWED: &[i64] = &[
        // The socket, and open files: statistics of its own memory.
        libc::SYS_read,
        libc::SYS_readv,
        libc::SYS_pread64,
        libc::SYS_recvfrom,
        libc::SYS_recvmsg,
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_sendto,
        libc::SYS_sendmsg,
        libc::SYS_close,
        // Memory.
        libc::SYS_brk,
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_madvise,
        libc::SYS_futex,
        // Time and randomness.
        libc::SYS_clock_gettime,
        libc::SYS_gettimeofday,
        libc::SYS_getrandom,
        // Its own process.
        libc::SYS_getpid,
        libc::SYS_gettid,
        libc::SYS_sched_yield,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_sigaltstack,
        libc::SYS_restart_syscall,
        libc::SYS_exit,
        libc::SYS_exit_group,
    ];

    /// Libraries make these calls only on request.
    const HOSTILE: &[i64] = &[
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_clone,
        libc::SYS_clone3,
        libc::SYS_socket,
        libc::SYS_socketpair,
        libc::SYS_connect,
        libc::SYS_bind,
        libc::SYS_listen,
        libc::SYS_accept,
        libc::SYS_accept4,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_pidfd_open,
        libc::SYS_pidfd_getfd,
        libc::SYS_kill,
        libc::SYS_tkill,
        libc::SYS_open_by_handle_at,
        libc::SYS_io_uring_setup,
        libc::SYS_bpf,
        libc::SYS_userfaultfd,
        libc::SYS_perf_event_open,
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_chroot,
        libc::SYS_pivot_root,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_kexec_load,
    ];

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn what_is_allowed_opens_nothing_and_is_not_hostile() {
            let allowed = allowed().expect("conditions are well-formed");
            assert!(HOSTILE.iter().all(|call| !allowed.contains_key(call)));
            for call in [
                libc::SYS_openat,
                libc::SYS_openat2,
                libc::SYS_fcntl,
                libc::SYS_ioctl,
                libc::SYS_dup,
                libc::SYS_prctl,
                libc::SYS_seccomp,
                libc::SYS_memfd_create,
                libc::SYS_unlinkat,
                libc::SYS_sendfile,
                libc::SYS_splice,
                libc::SYS_shmat,
            ] {
                assert!(!allowed.contains_key(&call), "{call}");
            }
        }
    }
}
