package admission

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// safeSysctls are the sysctls that every pod may set, each with the first kernel that has it in
// namespaces.
// https://kubernetes.io/docs/tasks/administer-cluster/sysctl-cluster/#safe-and-unsafe-sysctls
var safeSysctls = []struct {
	name         string
	major, minor int
}{
	{name: "kernel.shm_rmid_forced"},
	{name: "net.ipv4.ip_local_port_range"},
	{name: "net.ipv4.tcp_syncookies"},
	{name: "net.ipv4.ping_group_range"},
	{name: "net.ipv4.ip_unprivileged_port_start"},
	{"net.ipv4.ip_local_reserved_ports", 3, 16},
	{"net.ipv4.tcp_keepalive_time", 4, 5},
	{"net.ipv4.tcp_fin_timeout", 4, 6},
	{"net.ipv4.tcp_keepalive_intvl", 4, 5},
	{"net.ipv4.tcp_keepalive_probes", 4, 5},
	{"net.ipv4.tcp_rmem", 4, 15},
	{"net.ipv4.tcp_wmem", 4, 15},
}

// The namespaces of sysctls, with the names in messages.
const (
	ipcNamespace = "IPC"
	netNamespace = "Net"
)

// ipcSysctls are the names and beginnings of names in the IPC namespace, besides fs.mqueue.
var ipcSysctls = map[string]bool{
	"kernel.sem": true, "kernel.shmall": true, "kernel.shmmax": true, "kernel.shmmni": true, "kernel.shm_rmid_forced": true,
	"kernel.shm": true, "kernel.msgmax": true, "kernel.msgmnb": true, "kernel.msgmni": true, "kernel.msg": true,
}

// namespaceOf returns the namespace of a sysctl; empty if the kernel has it for the whole machine.
func namespaceOf(name string) string {
	switch {
	case ipcSysctls[name], strings.HasPrefix(name, "fs.mqueue."):
		return ipcNamespace
	case strings.HasPrefix(name, "net."):
		return netNamespace
	}
	return ""
}

// sysctls is the handler that refuses sysctls that are not on its list.
type sysctls struct {
	// names and prefixes hold the namespaces of the allowed sysctls.
	names, prefixes map[string]string
}

// sysctlPattern matches the name of a sysctl, with dots or slashes and perhaps an asterisk at its end.
var sysctlPattern = regexp.MustCompile(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]$`)

// maxSysctl is the maximum length of the name of a sysctl.
const maxSysctl = 253

func newSysctls(h Host) (*sysctls, error) {
	s := &sysctls{names: map[string]string{}, prefixes: map[string]string{}}
	if h.OS == string(corev1.Linux) {
		major, minor := kernelVersion(h.Kernel)
		for _, safe := range safeSysctls {
			if major > safe.major || major == safe.major && minor >= safe.minor {
				s.names[safe.name] = namespaceOf(safe.name)
			}
		}
	}
	for _, pattern := range h.AllowedUnsafeSysctls {
		if len(pattern) > maxSysctl || !sysctlPattern.MatchString(pattern) {
			return nil, fmt.Errorf("sysctl %q must have at most %d characters and match regex %s", pattern, maxSysctl, sysctlPattern)
		}
		name, _, prefixed := strings.Cut(dotted(pattern), "*")
		namespace := namespaceOf(name)
		if namespace == "" {
			return nil, fmt.Errorf("the sysctls %q are not known to be namespaced", name)
		}
		if prefixed {
			s.prefixes[name] = namespace
		} else {
			s.names[name] = namespace
		}
	}
	return s, nil
}

// kernelVersion returns the first two numbers of a release; zeros if it has none.
func kernelVersion(release string) (major, minor int) {
	first, rest, _ := strings.Cut(release, ".")
	second := rest
	if i := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		second = rest[:i]
	}
	major, err := strconv.Atoi(first)
	if err != nil {
		return 0, 0
	}
	minor, _ = strconv.Atoi(second) // missing means zero
	return major, minor
}

// dotted returns the name of a sysctl with dots between its parts. If its first separator is a
// slash, dots and slashes have swapped roles, as in net/ipv4/conf/eno2.100/rp_filter.
func dotted(name string) string {
	if i := strings.IndexAny(name, "./"); i < 0 || name[i] == '.' {
		return name
	}
	return strings.NewReplacer(".", "/", "/", ".").Replace(name)
}

// Admit refuses a pod that sets a sysctl that is not allowed, or that is the host's.
func (s *sysctls) Admit(r Request) Verdict {
	if r.Pod.Spec.SecurityContext == nil {
		return Verdict{}
	}
	for _, sysctl := range r.Pod.Spec.SecurityContext.Sysctls {
		if err := s.check(dotted(sysctl.Name), r.Pod.Spec.HostNetwork, r.Pod.Spec.HostIPC); err != nil {
			return Verdict{Reason: "SysctlForbidden", Message: fmt.Sprintf("forbidden sysctl: %v", err)}
		}
	}
	return Verdict{}
}

func (s *sysctls) check(name string, hostNetwork, hostIPC bool) error {
	namespace, ok := s.names[name]
	for prefix, n := range s.prefixes {
		if !ok && strings.HasPrefix(name, prefix) {
			namespace, ok = n, true
		}
	}
	switch {
	case !ok:
		return fmt.Errorf("%q not allowlisted", name)
	case namespace == ipcNamespace && hostIPC, namespace == netNamespace && hostNetwork:
		return fmt.Errorf("%q not allowed with host %s enabled", name, namespace)
	}
	return nil
}
