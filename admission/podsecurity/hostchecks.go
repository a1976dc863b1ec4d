package podsecurity

import (
	"slices"
	"strconv"
	"strings"

	"github.com/planekit/planekit/admission/internal/podspec"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hostNamespaces forbids to share namespaces with the node.
func hostNamespaces(_ *metav1.ObjectMeta, spec *corev1.PodSpec) *Violation {
	var shared []string
	if spec.HostNetwork {
		shared = append(shared, "hostNetwork=true")
	}
	if spec.HostPID {
		shared = append(shared, "hostPID=true")
	}
	if spec.HostIPC {
		shared = append(shared, "hostIPC=true")
	}
	if len(shared) == 0 {
		return nil
	}
	return &Violation{"host namespaces", strings.Join(shared, ", ")}
}

// hostPorts forbids ports of the node.
func hostPorts(_ *metav1.ObjectMeta, spec *corev1.PodSpec) *Violation {
	var containers, ports []string
	for _, c := range podspec.Containers(spec) {
		before := len(ports)
		for i := range c.Ports {
			if port := c.Ports[i].HostPort; port != 0 {
				ports = append(ports, strconv.Itoa(int(port)))
			}
		}
		if len(ports) > before {
			containers = append(containers, c.Name)
		}
	}
	if len(containers) == 0 {
		return nil
	}
	ports = unique(ports)
	return &Violation{"hostPort", named("container", containers) + " " + uses(len(containers)) + " " +
		plural("hostPort", len(ports)) + " " + strings.Join(ports, ", ")}
}

// probedHosts forbids probes and hooks to name a host, which the kubelet would connect to from the node.
func probedHosts(_ *metav1.ObjectMeta, spec *corev1.PodSpec) *Violation {
	var containers, hosts []string
	for _, c := range podspec.Containers(spec) {
		before := len(hosts)
		for _, p := range [...]*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
			if p != nil {
				hosts = appendHosts(hosts, p.HTTPGet, p.TCPSocket)
			}
		}
		if c.Lifecycle != nil {
			for _, h := range [...]*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
				if h != nil {
					hosts = appendHosts(hosts, h.HTTPGet, h.TCPSocket)
				}
			}
		}
		if len(hosts) > before {
			containers = append(containers, c.Name)
		}
	}
	if len(containers) == 0 {
		return nil
	}
	containers, hosts = unique(containers), unique(hosts)
	return &Violation{"probe or lifecycle host", named("container", containers) + " " + uses(len(containers)) + " " +
		named("probe or lifecycle host", hosts)}
}

func appendHosts(hosts []string, get *corev1.HTTPGetAction, socket *corev1.TCPSocketAction) []string {
	if get != nil && get.Host != "" {
		hosts = append(hosts, get.Host)
	}
	if socket != nil && socket.Host != "" {
		hosts = append(hosts, socket.Host)
	}
	return hosts
}

// safeSysctls lists the sysctls that affect only the pod, with the minor version since which they are allowed.
var safeSysctls = []struct {
	name  string
	since int
}{
	{"kernel.shm_rmid_forced", 0},
	{"net.ipv4.ip_local_port_range", 0},
	{"net.ipv4.tcp_syncookies", 0},
	{"net.ipv4.ping_group_range", 0},
	{"net.ipv4.ip_unprivileged_port_start", 0},
	{"net.ipv4.ip_local_reserved_ports", 27},
	{"net.ipv4.tcp_keepalive_time", 29},
	{"net.ipv4.tcp_fin_timeout", 29},
	{"net.ipv4.tcp_keepalive_intvl", 29},
	{"net.ipv4.tcp_keepalive_probes", 29},
	{"net.ipv4.tcp_rmem", 32},
	{"net.ipv4.tcp_wmem", 32},
}

// sysctls forbids all but the safe sysctls of a minor version.
func sysctls(minor int) examine {
	var safe []string
	for _, s := range safeSysctls {
		if s.since <= minor {
			safe = append(safe, s.name)
		}
	}
	return func(_ *metav1.ObjectMeta, spec *corev1.PodSpec) *Violation {
		if spec.SecurityContext == nil {
			return nil
		}
		var forbidden []string
		for _, s := range spec.SecurityContext.Sysctls {
			if !slices.Contains(safe, s.Name) {
				forbidden = append(forbidden, s.Name)
			}
		}
		if len(forbidden) == 0 {
			return nil
		}
		return &Violation{"forbidden sysctls", strings.Join(forbidden, ", ")}
	}
}

// hostProcess forbids containers that are processes of a Windows node.
func hostProcess(_ *metav1.ObjectMeta, spec *corev1.PodSpec) *Violation {
	set := func(o *corev1.WindowsSecurityContextOptions) bool { return o != nil && isTrue(o.HostProcess) }
	by := setters{pod: spec.SecurityContext != nil && set(spec.SecurityContext.WindowsOptions)}
	for _, c := range podspec.Containers(spec) {
		if c.SecurityContext != nil && set(c.SecurityContext.WindowsOptions) {
			by.containers = append(by.containers, c.Name)
		}
	}
	if by.none() {
		return nil
	}
	return &Violation{"hostProcess", by.String() + " must not set securityContext.windowsOptions.hostProcess=true"}
}

func isTrue(b *bool) bool  { return b != nil && *b }
func isFalse(b *bool) bool { return b != nil && !*b }
