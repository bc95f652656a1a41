//! The sandbox of a worker, entered for good before it reads its first order: no program can be started, no connection made and no other
//! process looked into. Files it may open, since it reads tables and writes spill files; the statement cannot name one.

#[cfg(not(target_os = "linux"))]
pub(super) fn enter() {}

#[cfg(target_os = "linux")]
pub(super) use linux::enter;

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeMap;

    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};

    /// Calls that a query never makes. They fail with EPERM.
    const REFUSED: [libc::c_long; 36] = [
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_socket,
        libc::SYS_connect,
        libc::SYS_bind,
        libc::SYS_listen,
        libc::SYS_accept,
        libc::SYS_accept4,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_kill,
        libc::SYS_tkill,
        libc::SYS_pidfd_open,
        libc::SYS_pidfd_getfd,
        libc::SYS_pidfd_send_signal,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_chroot,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_delete_module,
        libc::SYS_kexec_load,
        libc::SYS_reboot,
        libc::SYS_io_uring_setup,
        libc::SYS_open_by_handle_at,
        libc::SYS_name_to_handle_at,
    ];

    /// A layer that the kernel refuses is missing; each of them is effective alone.
    pub fn enter() {
        let none = CapabilitySets {
            effective: CapabilitySet::empty(),
            permitted: CapabilitySet::empty(),
            inheritable: CapabilitySet::empty(),
        };
        let _ = set_capabilities(None, none);
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
        let _ = set_no_new_privs(true);
        if let Some(filter) = filter() {
            let _ = apply_filter(&filter);
        }
    }

    fn filter() -> Option<BpfProgram> {
        let arch = TargetArch::try_from(std::env::consts::ARCH).ok()?;
        let rules: BTreeMap<i64, Vec<_>> = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
        let refused = SeccompAction::Errno(libc::EPERM as u32);
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch).ok()?;
        BpfProgram::try_from(filter).ok()
    }
}
