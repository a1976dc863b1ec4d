package podconfig

import (
	"fmt"
	"strings"

	"github.com/planekit/planekit/kubelet/internal/qos"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Sandbox returns the CRI configuration of a pod's sandbox.
func (b *Builder) Sandbox(pod *corev1.Pod, attempt uint32) (*runtimeapi.PodSandboxConfig, error) {
	dns, err := b.dnsConfig(pod)
	if err != nil {
		return nil, err
	}
	hostname, err := b.kernelHostname(pod)
	if err != nil {
		return nil, err
	}
	if pod.Spec.HostNetwork {
		hostname = "" // the host's name; runc refuses to set it
	}
	rights, err := b.sandboxSecurity(pod)
	if err != nil {
		return nil, err
	}
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{
			Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID), Attempt: attempt,
		},
		Hostname:     hostname,
		LogDirectory: b.LogDirectory(pod),
		DnsConfig:    dns,
		PortMappings: portMappings(pod),
		Labels:       b.podLabels(pod),
		Annotations:  pod.Annotations,
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent:    b.Cgroup(pod),
			Sysctls:         sysctls(pod),
			Overhead:        b.overhead(pod),
			SecurityContext: rights,
		},
	}, nil
}

// overhead returns what the sandbox itself takes, for runtimes that run it in a virtual machine. It is a
// request and a limit at once.
func (b *Builder) overhead(pod *corev1.Pod) *runtimeapi.LinuxContainerResources {
	if len(pod.Spec.Overhead) == 0 {
		return nil
	}
	cpu := pod.Spec.Overhead.Cpu().MilliValue()
	r := &runtimeapi.LinuxContainerResources{CpuShares: qos.CPUShares(cpu), MemoryLimitInBytes: pod.Spec.Overhead.Memory().Value()}
	r.CpuQuota, r.CpuPeriod = b.CPU.Quota(cpu)
	return r
}

// maxHostname is the length of the kernel's host name in bytes, sethostname(2).
const maxHostname = 64

// kernelHostname returns the host name that the processes of a pod see: the short one, or with
// setHostnameAsFQDN the whole.
func (b *Builder) kernelHostname(pod *corev1.Pod) (string, error) {
	short := b.hostname(pod)
	whole := b.fqdn(pod, short)
	if !isTrue(pod.Spec.SetHostnameAsFQDN) || whole == "" {
		return short, nil
	}
	if len(whole) > maxHostname {
		return "", fmt.Errorf("failed to construct FQDN from pod hostname and cluster domain, FQDN %s is too long (%d characters is the max, %d characters requested)",
			whole, maxHostname, len(whole))
	}
	return whole, nil
}

// fqdn returns the name of a pod in the cluster's domain; empty for a pod without a subdomain.
func (b *Builder) fqdn(pod *corev1.Pod, short string) string {
	if pod.Spec.Subdomain == "" {
		return ""
	}
	return fmt.Sprintf("%s.%s.%s.svc.%s", short, pod.Spec.Subdomain, pod.Namespace, b.ClusterDomain)
}

// hostname returns the host name of a pod: its hostnameOverride, or else its hostname or name, truncated
// to 63 bytes.
func (b *Builder) hostname(pod *corev1.Pod) string {
	if pod.Spec.HostNetwork {
		return b.HostName
	}
	if override := pod.Spec.HostnameOverride; override != nil && *override != "" {
		return *override
	}
	name := pod.Name
	if pod.Spec.Hostname != "" {
		name = pod.Spec.Hostname
	}
	return strings.TrimRight(name[:min(len(name), 63)], "-.")
}

func portMappings(pod *corev1.Pod) []*runtimeapi.PortMapping {
	if pod.Spec.HostNetwork {
		return nil
	}
	protocols := map[corev1.Protocol]runtimeapi.Protocol{
		corev1.ProtocolTCP: runtimeapi.Protocol_TCP, corev1.ProtocolUDP: runtimeapi.Protocol_UDP, corev1.ProtocolSCTP: runtimeapi.Protocol_SCTP,
	}
	var list []*runtimeapi.PortMapping
	for i := range pod.Spec.Containers {
		for _, port := range pod.Spec.Containers[i].Ports {
			list = append(list, &runtimeapi.PortMapping{
				Protocol: protocols[port.Protocol], ContainerPort: port.ContainerPort, HostPort: port.HostPort, HostIp: port.HostIP,
			})
		}
	}
	return list
}

func sysctls(pod *corev1.Pod) map[string]string {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	m := map[string]string{}
	for _, s := range pod.Spec.SecurityContext.Sysctls {
		m[s.Name] = s.Value
	}
	return m
}

// namespaceOptions returns the namespaces that a pod's containers share. It gives a pod with hostUsers
// false its ID range, if its runtime handler supports that.
func (b *Builder) namespaceOptions(pod *corev1.Pod) (*runtimeapi.NamespaceOption, error) {
	o := &runtimeapi.NamespaceOption{
		Network: runtimeapi.NamespaceMode_POD, Pid: runtimeapi.NamespaceMode_CONTAINER, Ipc: runtimeapi.NamespaceMode_POD,
	}
	if pod.Spec.HostNetwork {
		o.Network = runtimeapi.NamespaceMode_NODE
	}
	if pod.Spec.HostIPC {
		o.Ipc = runtimeapi.NamespaceMode_NODE
	}
	if pod.Spec.HostPID {
		o.Pid = runtimeapi.NamespaceMode_NODE
	} else if isTrue(pod.Spec.ShareProcessNamespace) {
		o.Pid = runtimeapi.NamespaceMode_POD
	}
	o.UsernsOptions = &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_NODE}
	if pod.Spec.HostUsers == nil || *pod.Spec.HostUsers {
		return o, nil
	}
	handler, err := b.Handler(pod)
	if err != nil {
		return nil, err
	}
	if err := b.Abilities.CheckUserNamespaces(handler); err != nil {
		return nil, err
	}
	o.UsernsOptions, err = b.UserNamespaces.Get(pod.UID)
	return o, err
}

func (b *Builder) sandboxSecurity(pod *corev1.Pod) (*runtimeapi.LinuxSandboxSecurityContext, error) {
	namespaces, err := b.namespaceOptions(pod)
	if err != nil {
		return nil, err
	}
	out := &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions: namespaces,
		Privileged:       anyPrivileged(pod),
		Seccomp:          &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
	}
	if s := pod.Spec.SecurityContext; s != nil {
		out.RunAsUser = int64Value(s.RunAsUser)
		if s.RunAsUser != nil {
			// A group requires a user (CRI, LinuxSandboxSecurityContext).
			out.RunAsGroup = int64Value(s.RunAsGroup)
		}
		out.SupplementalGroups = podGroups(s)
		if out.SupplementalGroupsPolicy, err = b.groupsPolicy(s); err != nil {
			return nil, err
		}
		out.SelinuxOptions = seLinux(s.SELinuxOptions)
	}
	return out, nil
}

func anyPrivileged(pod *corev1.Pod) bool {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if s := list[i].SecurityContext; s != nil && isTrue(s.Privileged) {
				return true
			}
		}
	}
	return false
}

func int64Value(p *int64) *runtimeapi.Int64Value {
	if p == nil {
		return nil
	}
	return &runtimeapi.Int64Value{Value: *p}
}

// podGroups returns the supplemental groups of all processes of a pod.
func podGroups(s *corev1.PodSecurityContext) []int64 {
	groups := append([]int64(nil), s.SupplementalGroups...)
	if s.FSGroup != nil {
		groups = append(groups, *s.FSGroup)
	}
	return groups
}
