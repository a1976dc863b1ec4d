package podconfig

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/planekit/planekit/kubelet/internal/lifecycle"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// maskedPaths and readonlyPaths are hidden or read-only for containers with the procMount Default.
// The lists are those of OCI runtimes.
var (
	maskedPaths = []string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
		"/sys/devices/virtual/powercap",
	}
	readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// security merges the security contexts of a pod and a container; the container's takes precedence.
func (b *Builder) security(pod *corev1.Pod, c *corev1.Container, image *runtimeapi.Image) (*runtimeapi.LinuxContainerSecurityContext, error) {
	p, s := pod.Spec.SecurityContext, c.SecurityContext
	if p == nil {
		p = &corev1.PodSecurityContext{}
	}
	if s == nil {
		s = &corev1.SecurityContext{}
	}
	user, group := either(s.RunAsUser, p.RunAsUser), either(s.RunAsGroup, p.RunAsGroup)
	if isTrue(either(s.RunAsNonRoot, p.RunAsNonRoot)) {
		if err := checkNonRoot(user, image); err != nil {
			return nil, fmt.Errorf("%w (pod: %q, container: %s)", err, lifecycle.PodName(pod), c.Name)
		}
	}
	namespaces, err := b.namespaceOptions(pod)
	if err != nil {
		return nil, err
	}
	policy, err := b.groupsPolicy(p)
	if err != nil {
		return nil, err
	}
	out := &runtimeapi.LinuxContainerSecurityContext{
		NamespaceOptions:   namespaces,
		Privileged:         isTrue(s.Privileged),
		ReadonlyRootfs:     isTrue(s.ReadOnlyRootFilesystem),
		NoNewPrivs:         s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation,
		RunAsUser:          int64Value(user),
		SupplementalGroups: podGroups(p),
		SelinuxOptions:     seLinux(either(s.SELinuxOptions, p.SELinuxOptions)),

		SupplementalGroupsPolicy: policy,
	}
	// CRI requires a user with a group; the default is the image's.
	switch {
	case user == nil && image.GetUid() != nil:
		out.RunAsUser = &runtimeapi.Int64Value{Value: image.GetUid().GetValue()}
	case user == nil && image.GetUsername() != "":
		out.RunAsUsername, _, _ = strings.Cut(image.GetUsername(), ":")
	}
	if out.RunAsUser != nil || out.RunAsUsername != "" {
		out.RunAsGroup = int64Value(group)
	}
	if s.Capabilities != nil {
		out.Capabilities = &runtimeapi.Capability{}
		for _, add := range s.Capabilities.Add {
			out.Capabilities.AddCapabilities = append(out.Capabilities.AddCapabilities, string(add))
		}
		for _, drop := range s.Capabilities.Drop {
			out.Capabilities.DropCapabilities = append(out.Capabilities.DropCapabilities, string(drop))
		}
	}
	if !out.Privileged && (s.ProcMount == nil || *s.ProcMount == corev1.DefaultProcMount) {
		out.MaskedPaths, out.ReadonlyPaths = maskedPaths, readonlyPaths
	}
	out.Seccomp = b.seccomp(either(s.SeccompProfile, p.SeccompProfile))
	out.Apparmor, err = appArmor(appArmorProfile(pod, c))
	out.ApparmorProfile = oldAppArmor(out.Apparmor) //lint:ignore SA1019 runtimes before containerd 1.6 read it alone
	return out, err
}

// either returns the first of two settings that is not nil.
func either[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

func checkNonRoot(user *int64, image *runtimeapi.Image) error {
	switch {
	case user != nil && *user == 0:
		return errors.New("container's runAsUser breaks non-root policy")
	case user != nil:
		return nil
	case image.GetUid() != nil && image.GetUid().GetValue() == 0:
		return errors.New("container has runAsNonRoot and image will run as root")
	case image.GetUid() == nil && image.GetUsername() != "":
		if n, err := strconv.ParseInt(image.GetUsername(), 10, 64); err != nil || n == 0 {
			return fmt.Errorf("container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root", image.GetUsername())
		}
	case image.GetUid() == nil:
		return errors.New("container has runAsNonRoot and image will run as root")
	}
	return nil
}

// seccomp is unconfined without a profile, unless SeccompDefault says otherwise, as in Kubernetes. A
// profile of the node is a file below the directory seccomp in the kubelet's root.
func (b *Builder) seccomp(p *corev1.SeccompProfile) *runtimeapi.SecurityProfile {
	switch {
	case p == nil && b.SeccompDefault, p != nil && p.Type == corev1.SeccompProfileTypeRuntimeDefault:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}
	case p != nil && p.Type == corev1.SeccompProfileTypeLocalhost && p.LocalhostProfile != nil:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: filepath.Join(b.Root, "seccomp", *p.LocalhostProfile)}
	}
	return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}
}
