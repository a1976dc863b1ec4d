package warn

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// oldNodeLabels are labels of nodes that have newer names, or none.
var oldNodeLabels = map[string]string{
	"beta.kubernetes.io/arch":                       `deprecated since v1.14; use "kubernetes.io/arch" instead`,
	"beta.kubernetes.io/os":                         `deprecated since v1.14; use "kubernetes.io/os" instead`,
	"failure-domain.beta.kubernetes.io/region":      `deprecated since v1.17; use "topology.kubernetes.io/region" instead`,
	"failure-domain.beta.kubernetes.io/zone":        `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
	"beta.kubernetes.io/instance-type":              `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`,
	"app.kubernetes.io/created-by":                  `deprecated since v1.9`,
	"scheduler.alpha.kubernetes.io/preferAvoidPods": `deprecated since v1.22; use Taints and Tolerations instead`,
	"node-role.kubernetes.io/master":                `use "node-role.kubernetes.io/control-plane" instead`,
}

// oldAnnotations have no effect any more. The seccomp annotations have none without the field.
var oldAnnotations = []struct{ key, text string }{
	{"scheduler.alpha.kubernetes.io/critical-pod", `non-functional in v1.16+; use the "priorityClassName" field instead`},
	{"security.alpha.kubernetes.io/sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
	{"security.alpha.kubernetes.io/unsafe-sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
}

const (
	podSeccomp       = "seccomp.security.alpha.kubernetes.io/pod"
	containerSeccomp = "container.seccomp.security.alpha.kubernetes.io/"
	containerProfile = "container.apparmor.security.beta.kubernetes.io/"

	useSeccomp   = `non-functional in v1.27+; use the "seccompProfile" field instead`
	useAppArmor  = `deprecated since v1.30; use the "appArmorProfile" field instead`
	nullSelector = "a null labelSelector results in matching no pod"
)

// oldVolumes are volumes that are deprecated.
var oldVolumes = []struct {
	field string
	is    func(*corev1.VolumeSource) bool
	text  string
}{
	{"photonPersistentDisk", func(v *corev1.VolumeSource) bool { return v.PhotonPersistentDisk != nil }, "deprecated in v1.11, non-functional in v1.16+"},
	{"gitRepo", func(v *corev1.VolumeSource) bool { return v.GitRepo != nil }, "deprecated in v1.11, and disabled by default in v1.33+"},
	{"scaleIO", func(v *corev1.VolumeSource) bool { return v.ScaleIO != nil }, "deprecated in v1.16, non-functional in v1.22+"},
	{"flocker", func(v *corev1.VolumeSource) bool { return v.Flocker != nil }, "deprecated in v1.22, non-functional in v1.25+"},
	{"storageOS", func(v *corev1.VolumeSource) bool { return v.StorageOS != nil }, "deprecated in v1.22, non-functional in v1.25+"},
	{"quobyte", func(v *corev1.VolumeSource) bool { return v.Quobyte != nil }, "deprecated in v1.22, non-functional in v1.25+"},
	{"glusterfs", func(v *corev1.VolumeSource) bool { return v.Glusterfs != nil }, "deprecated in v1.25, non-functional in v1.26+"},
	{"cephfs", func(v *corev1.VolumeSource) bool { return v.CephFS != nil }, "deprecated in v1.28, non-functional in v1.31+"},
	{"rbd", func(v *corev1.VolumeSource) bool { return v.RBD != nil }, "deprecated in v1.28, non-functional in v1.31+"},
}

// A podWarner collects the warnings about a pod, or about the template at a path.
type podWarner struct {
	at          *field.Path // nil for a pod
	spec        *corev1.PodSpec
	annotations map[string]string
	warnings    []string
}

func ofPod(at *field.Path, spec *corev1.PodSpec, annotations map[string]string) []string {
	w := &podWarner{at: at, spec: spec, annotations: annotations}
	for _, step := range []func(){
		w.nodeLabels, w.oldAnnotations, w.volumes, w.volumePaths, w.duplicates, w.overhead, w.containers, w.ports, w.portNames, w.gracePeriod, w.podAffinity, w.addresses,
	} {
		step()
	}
	return w.warnings
}

// maxWarnings bounds the warnings about one pod. A response has room for fewer.
const maxWarnings = 1000

func (w *podWarner) add(at *field.Path, format string, values ...any) {
	w.say(at.String() + ": " + fmt.Sprintf(format, values...))
}

func (w *podWarner) say(text string) {
	if len(w.warnings) < maxWarnings {
		w.warnings = append(w.warnings, text)
	}
}

func (w *podWarner) path(names ...string) *field.Path { return w.at.Child("spec", names...) }

func (w *podWarner) annotation(key string) *field.Path {
	return w.at.Child("metadata", "annotations").Key(key)
}

func (w *podWarner) nodeLabels() {
	for _, key := range slices.Sorted(maps.Keys(w.spec.NodeSelector)) {
		if text, old := oldNodeLabels[key]; old {
			w.add(w.path("nodeSelector").Key(key), "%s", text)
		}
	}
	if w.spec.Affinity != nil && w.spec.Affinity.NodeAffinity != nil {
		n := w.spec.Affinity.NodeAffinity
		at := w.path("affinity", "nodeAffinity")
		if r := n.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
			for i := range r.NodeSelectorTerms {
				w.term(at.Child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms").Index(i), &r.NodeSelectorTerms[i], false)
			}
		}
		for i := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			p := &n.PreferredDuringSchedulingIgnoredDuringExecution[i]
			w.term(at.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i).Child("preference"), &p.Preference, true)
		}
	}
	for i := range w.spec.TopologySpreadConstraints {
		c, at := &w.spec.TopologySpreadConstraints[i], w.path("topologySpreadConstraints").Index(i)
		if text, old := oldNodeLabels[c.TopologyKey]; old {
			w.add(at.Child("topologyKey"), "%s is %s", c.TopologyKey, text)
		}
		if c.LabelSelector == nil {
			w.add(at.Child("labelSelector"), nullSelector)
		}
	}
}

// term warns of old labels and, if values are not validated otherwise, of wrong ones.
func (w *podWarner) term(at *field.Path, t *corev1.NodeSelectorTerm, values bool) {
	for i, e := range t.MatchExpressions {
		at := at.Child("matchExpressions").Index(i)
		if text, old := oldNodeLabels[e.Key]; old {
			w.add(at.Child("key"), "%s is %s", e.Key, text)
		}
		if !values {
			continue
		}
		for n, value := range e.Values {
			for _, text := range validation.IsValidLabelValue(value) {
				w.add(at.Child("values").Index(n), "%s is invalid, %s", value, text)
			}
		}
	}
}

func (w *podWarner) oldAnnotations() {
	for _, a := range oldAnnotations {
		if _, has := w.annotations[a.key]; has {
			w.add(w.annotation(a.key), "%s", a.text)
		}
	}
}

func (w *podWarner) volumes() {
	for i := range w.spec.Volumes {
		v, at := &w.spec.Volumes[i].VolumeSource, w.path("volumes").Index(i)
		for _, old := range oldVolumes {
			if old.is(v) {
				w.add(at.Child(old.field), "%s", old.text)
			}
		}
		if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
			w.warnings = append(w.warnings, ofClaim(at.Child("ephemeral", "volumeClaimTemplate", "spec"), &v.Ephemeral.VolumeClaimTemplate.Spec)...)
		}
	}
}

func (w *podWarner) duplicates() {
	addresses, secrets := map[string]bool{}, map[string]bool{}
	for i, a := range w.spec.HostAliases {
		if addresses[a.IP] {
			w.add(w.path("hostAliases").Index(i).Child("ip"), "duplicate ip %q", a.IP)
		}
		addresses[a.IP] = true
	}
	for i, s := range w.spec.ImagePullSecrets {
		if secrets[s.Name] {
			w.add(w.path("imagePullSecrets").Index(i).Child("name"), "duplicate name %q", s.Name)
		}
		secrets[s.Name] = true
	}
	for i, s := range w.spec.ImagePullSecrets {
		if s.Name == "" {
			w.add(w.path("imagePullSecrets").Index(i).Child("name"), "invalid empty name %q", s.Name)
		}
	}
}

func (w *podWarner) overhead() {
	w.warnings = fractional(w.warnings, w.path("overhead"), w.spec.Overhead, corev1.ResourceMemory, corev1.ResourceEphemeralStorage)
}

// each calls visit for each container.
func (w *podWarner) each(visit func(*corev1.Container, *field.Path)) {
	for _, list := range []struct {
		path string
		of   []corev1.Container
	}{{"initContainers", w.spec.InitContainers}, {"containers", w.spec.Containers}} {
		for i := range list.of {
			visit(&list.of[i], w.path(list.path).Index(i))
		}
	}
	for i := range w.spec.EphemeralContainers {
		visit((*corev1.Container)(&w.spec.EphemeralContainers[i].EphemeralContainerCommon), w.path("ephemeralContainers").Index(i))
	}
}

func (w *podWarner) containers() {
	if c := w.spec.SecurityContext; c == nil || c.SeccompProfile == nil {
		if _, has := w.annotations[podSeccomp]; has {
			w.add(w.annotation(podSeccomp), useSeccomp)
		}
	}
	w.each(func(c *corev1.Container, at *field.Path) {
		if s := c.SecurityContext; s == nil || s.SeccompProfile == nil {
			key := containerSeccomp + c.Name
			if _, has := w.annotations[key]; has {
				w.add(w.annotation(key), useSeccomp)
			}
		}
		// The annotation of a pod becomes the field.
		if s := c.SecurityContext; w.at != nil && (s == nil || s.AppArmorProfile == nil) && !w.profiled() {
			key := containerProfile + c.Name
			if _, has := w.annotations[key]; has {
				w.add(w.annotation(key), useAppArmor)
			}
		}
		for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
			w.warnings = fractional(w.warnings, at.Child("resources", "limits"), c.Resources.Limits, name)
			w.warnings = fractional(w.warnings, at.Child("resources", "requests"), c.Resources.Requests, name)
		}
		w.variables(c, at)
	})
}

// profiled reports whether the pod has an AppArmor profile for all its containers.
func (w *podWarner) profiled() bool {
	return w.spec.SecurityContext != nil && w.spec.SecurityContext.AppArmorProfile != nil
}

// variables warns of one that hides an earlier one and does not refer to it.
func (w *podWarner) variables(c *corev1.Container, at *field.Path) {
	known := map[string]bool{}
	for i, v := range c.Env {
		earlier := "$(" + v.Name + ")"
		if known[v.Name] && (v.ValueFrom != nil || v.Value == earlier || !strings.Contains(v.Value, earlier)) {
			w.add(at.Child("env").Index(i), "hides previous definition of %q, which may be dropped when using apply", v.Name)
		}
		known[v.Name] = true
	}
}

// maxSamePorts bounds the comparisons of ports: with more of one number and protocol, only the first are compared with the rest.
const maxSamePorts = 100

func (w *podWarner) ports() {
	type port struct {
		at *field.Path
		corev1.ContainerPort
	}
	type key struct {
		number   int32
		protocol corev1.Protocol
	}
	all := map[key][]port{}
	w.each(func(c *corev1.Container, at *field.Path) {
		for i, p := range c.Ports {
			at := at.Child("ports").Index(i)
			if p.HostIP != "" && p.HostPort == 0 {
				w.add(at, "hostIP set without hostPort: %+v", p)
			}
			k := key{p.ContainerPort, p.Protocol}
			for _, other := range all[k] {
				switch {
				case p.HostIP == other.HostIP && p.HostPort == other.HostPort:
					w.add(at, "duplicate port definition with %s", other.at)
				case p.HostPort == 0 || other.HostPort == 0:
					w.add(at, "overlapping port definition with %s", other.at)
				case p.HostPort == other.HostPort && (p.HostIP == "") != (other.HostIP == ""):
					w.add(at, "dangerously ambiguous port definition with %s", other.at)
				}
			}
			if len(all[k]) < maxSamePorts {
				all[k] = append(all[k], port{at, p})
			}
		}
	})
}

func (w *podWarner) portNames() {
	first := map[string]*field.Path{}
	w.each(func(c *corev1.Container, at *field.Path) {
		for i, p := range c.Ports {
			at := at.Child("ports").Index(i)
			switch other := first[p.Name]; {
			case p.Name == "":
			case other != nil:
				w.add(at, "duplicate port name %q with %s, services and probes that select ports by name will use %s", p.Name, other, other)
			default:
				first[p.Name] = at
			}
		}
	})
}

func (w *podWarner) gracePeriod() {
	if s := w.spec.TerminationGracePeriodSeconds; s != nil && *s < 0 {
		w.add(w.path("terminationGracePeriodSeconds"), "must be >= 0; negative values are invalid and will be treated as 1")
	}
}

func (w *podWarner) podAffinity() {
	if w.spec.Affinity == nil {
		return
	}
	terms := func(kind string, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		for i := range required {
			if required[i].LabelSelector == nil {
				w.add(w.path("affinity", kind, "requiredDuringSchedulingIgnoredDuringExecution").Index(i).Child("labelSelector"), nullSelector)
			}
		}
		for i := range preferred {
			if preferred[i].PodAffinityTerm.LabelSelector == nil {
				w.add(w.path("affinity", kind, "preferredDuringSchedulingIgnoredDuringExecution").Index(i).Child("podAffinityTerm", "labelSelector"), nullSelector)
			}
		}
	}
	if a := w.spec.Affinity.PodAffinity; a != nil {
		terms("podAffinity", a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a := w.spec.Affinity.PodAntiAffinity; a != nil {
		terms("podAntiAffinity", a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

// addresses warns of addresses in forms that programs read differently.
func (w *podWarner) addresses() {
	if w.spec.DNSConfig != nil {
		for i, server := range w.spec.DNSConfig.Nameservers {
			w.warnings = append(w.warnings, validation.GetWarningsForIP(w.path("dnsConfig", "nameservers").Index(i), server)...)
		}
	}
	for i, alias := range w.spec.HostAliases {
		w.warnings = append(w.warnings, validation.GetWarningsForIP(w.path("hostAliases").Index(i).Child("ip"), alias.IP)...)
	}
}
