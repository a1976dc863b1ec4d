package podspec

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// sysctlName is the form of a kernel parameter; at most maxSysctl bytes.
var sysctlName = func() *regexp.Regexp {
	const segment = `[a-z0-9]([-_a-z0-9]*[a-z0-9])?`
	return regexp.MustCompile(`^(` + segment + `[\./])*` + segment + `$`)
}()

const maxSysctl = 253

// maxProfilePath is the longest path Linux takes, less its end.
const maxProfilePath = 4095

// checkPodSecurity checks what the containers of a pod have in common.
func checkPodSecurity(ps *check.Problems, spec *field.Path, pod *corev1.PodSpec) {
	sc := pod.SecurityContext
	if sc == nil {
		return
	}
	p := spec.Child("securityContext")
	checkIDs(ps, p, sc.RunAsUser, sc.RunAsGroup)
	if sc.FSGroup != nil {
		ps.Each(p.Child("fsGroup"), *sc.FSGroup, validation.IsValidGroupID(*sc.FSGroup))
	}
	for i, gid := range sc.SupplementalGroups {
		ps.Each(p.Child("supplementalGroups").Index(i), gid, validation.IsValidGroupID(gid))
	}
	ps.Valid(!optional.Deref(pod.ShareProcessNamespace) || !pod.HostPID,
		p.Child("shareProcessNamespace"), true, "ShareProcessNamespace and HostPID cannot both be enabled")
	checkSysctls(ps, p.Child("sysctls"), pod)
	if sc.FSGroupChangePolicy != nil {
		check.OneOf(ps, p.Child("fsGroupChangePolicy"), *sc.FSGroupChangePolicy, corev1.FSGroupChangeAlways, corev1.FSGroupChangeOnRootMismatch)
	}
	if sc.SELinuxChangePolicy != nil { // the other one needs a feature gate that is off by default
		check.OneOf(ps, p.Child("seLinuxChangePolicy"), *sc.SELinuxChangePolicy, corev1.SELinuxChangePolicyRecursive)
	}
	if sc.SupplementalGroupsPolicy != nil {
		check.OneOf(ps, p.Child("supplementalGroupsPolicy"), *sc.SupplementalGroupsPolicy,
			corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict)
	}
	checkSeccomp(ps, p.Child("seccompProfile"), sc.SeccompProfile)
	checkAppArmor(ps, p.Child("appArmorProfile"), sc.AppArmorProfile)
	checkWindowsOptions(ps, p.Child("windowsOptions"), sc.WindowsOptions)
	if !hostUsers(pod) {
		ps.Allowed(!pod.HostPID, spec.Child("HostPID"), "when `hostUsers` is false")
		ps.Allowed(!pod.HostIPC, spec.Child("HostIPC"), "when `hostUsers` is false")
		ps.Allowed(!pod.HostNetwork, spec.Child("hostNetwork"), "when `hostUsers` is false")
	}
}

// hostUsers reports whether user IDs in the pod are those of the node.
func hostUsers(pod *corev1.PodSpec) bool { return pod.HostUsers == nil || *pod.HostUsers }

// checkSecurity checks what is one container's own.
func checkSecurity(ps *check.Problems, p *field.Path, sc *corev1.SecurityContext, pod *corev1.PodSpec) {
	if sc == nil {
		return
	}
	checkIDs(ps, p, sc.RunAsUser, sc.RunAsGroup)
	if sc.ProcMount != nil {
		at := p.Child("procMount")
		check.OneOf(ps, at, *sc.ProcMount, corev1.DefaultProcMount, corev1.UnmaskedProcMount)
		ps.Valid(*sc.ProcMount != corev1.UnmaskedProcMount || !hostUsers(pod),
			at, sc.ProcMount, "`hostUsers` must be false to use `Unmasked`")
	}
	checkSeccomp(ps, p.Child("seccompProfile"), sc.SeccompProfile)
	if sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation {
		ps.Valid(!privileged(sc), p, sc, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
		if sc.Capabilities != nil {
			for _, c := range sc.Capabilities.Add {
				ps.Valid(c != "CAP_SYS_ADMIN", p, sc, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN")
			}
		}
	}
	checkWindowsOptions(ps, p.Child("windowsOptions"), sc.WindowsOptions)
	checkAppArmor(ps, p.Child("appArmorProfile"), sc.AppArmorProfile)
}

func privileged(sc *corev1.SecurityContext) bool { return sc != nil && optional.Deref(sc.Privileged) }

func checkIDs(ps *check.Problems, p *field.Path, user, group *int64) {
	if user != nil {
		ps.Each(p.Child("runAsUser"), *user, validation.IsValidUserID(*user))
	}
	if group != nil {
		ps.Each(p.Child("runAsGroup"), *group, validation.IsValidGroupID(*group))
	}
}

func checkSysctls(ps *check.Problems, p *field.Path, pod *corev1.PodSpec) {
	seen := map[string]bool{}
	for i, s := range pod.SecurityContext.Sysctls {
		at := p.Index(i).Child("name")
		switch {
		case s.Name == "":
			ps.Add(field.Required(at, ""))
		case len(s.Name) > maxSysctl || !sysctlName.MatchString(s.Name):
			ps.Add(field.Invalid(at, s.Name, fmt.Sprintf("must have at most %d characters and match regex %s", maxSysctl, sysctlName)))
		case seen[s.Name]:
			ps.Add(field.Duplicate(at, s.Name))
		}
		seen[s.Name] = true
		switch of := sysctlNamespace(s.Name); {
		case of == "net" && pod.HostNetwork:
			ps.Add(field.Invalid(at, s.Name, "may not be specified when 'hostNetwork' is true"))
		case of == "ipc" && pod.HostIPC:
			ps.Add(field.Invalid(at, s.Name, "may not be specified when 'hostIPC' is true"))
		}
	}
}

// sysctlNamespace names the Linux namespace that a parameter belongs to, if any
// (namespaces(7)). A pod that shares the node's must not change it.
func sysctlNamespace(name string) string {
	name = dotted(name)
	if strings.HasPrefix(name, "net.") {
		return "net"
	}
	for _, prefix := range []string{"kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."} {
		if strings.HasPrefix(name, prefix) {
			return "ipc"
		}
	}
	return ""
}

// dotted writes a parameter's name with dots between its parts. Where the first
// separator is a slash, dots belong to the parts (sysctl.d(5)).
func dotted(name string) string {
	i := strings.IndexAny(name, "./")
	if i < 0 || name[i] == '.' {
		return name
	}
	return strings.Map(func(r rune) rune {
		switch r {
		case '/':
			return '.'
		case '.':
			return '/'
		}
		return r
	}, name)
}

func checkSeccomp(ps *check.Problems, p *field.Path, profile *corev1.SeccompProfile) {
	if profile == nil {
		return
	}
	if profile.Type == "" {
		ps.Add(field.Required(p.Child("type"), "type is required when seccompProfile is set"))
	} else {
		check.OneOf(ps, p.Child("type"), profile.Type,
			corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined)
	}
	file := p.Child("localhostProfile")
	switch local := profile.Type == corev1.SeccompProfileTypeLocalhost; {
	case local && profile.LocalhostProfile == nil:
		ps.Add(field.Required(file, "must be set when seccomp type is Localhost"))
	case local:
		checkDescending(ps, file, *profile.LocalhostProfile)
	case profile.LocalhostProfile != nil:
		ps.Add(field.Invalid(file, profile, "can only be set when seccomp type is Localhost"))
	}
}

func checkAppArmor(ps *check.Problems, p *field.Path, profile *corev1.AppArmorProfile) {
	if profile == nil {
		return
	}
	file := p.Child("localhostProfile")
	switch profile.Type {
	case "":
		ps.Add(field.Required(p.Child("type"), "type is required when appArmorProfile is set"))
	case corev1.AppArmorProfileTypeLocalhost:
		name := optional.Deref(profile.LocalhostProfile)
		if strings.TrimSpace(name) != name {
			ps.Add(field.Invalid(file, name, "must not be padded with whitespace"))
		} else if name == "" {
			ps.Add(field.Required(file, "must be set when AppArmor type is Localhost"))
		}
		ps.AtMostBytes(file, len(name), maxProfilePath)
	case corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined:
		if profile.LocalhostProfile != nil {
			ps.Add(field.Invalid(file, profile.LocalhostProfile, "can only be set when AppArmor type is Localhost"))
		}
	default:
		check.OneOf(ps, p.Child("type"), profile.Type, corev1.AppArmorProfileTypeLocalhost,
			corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined)
	}
}
