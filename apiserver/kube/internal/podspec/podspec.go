// Package podspec defaults and validates pod specs, and the parts of them that other kinds
// share: volumes, volume claims, tolerations and amounts of resources.
//
//	podspec.DefaultTemplate(&deployment.Spec.Template)
//	podspec.CheckTemplate(&ps, path.Child("template"), &deployment.Spec.Template)
//
// Functions named Check add what is wrong at a path to a [check.Problems].
package podspec

import (
	"math"

	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// CheckTemplate checks what pods are made from.
func CheckTemplate(ps *check.Problems, p *field.Path, template *corev1.PodTemplateSpec) {
	ps.Labels(p.Child("labels"), template.Labels)
	ps.All(apivalidation.ValidateAnnotations(template.Annotations, p.Child("annotations")))
	CheckAnnotations(ps, p.Child("annotations"), template.Annotations, &template.Spec)
	Check(ps, p.Child("spec"), &template.Spec)
	CheckAnnotationsMatch(ps, p.Child("spec"), template.Annotations, &template.Spec)
	ps.Allowed(len(template.Spec.EphemeralContainers) == 0,
		p.Child("spec", "ephemeralContainers"), "ephemeral containers not allowed in pod template")
}

// A scope holds the parts of a pod that the rules for its containers depend on.
type scope struct {
	spec *corev1.PodSpec
	// volumes holds the volumes that containers may mount, by name.
	volumes map[string]*corev1.VolumeSource
	// claims holds the names of the resource claims that containers may use.
	claims map[string]bool
}

// Check checks the spec of a pod or of a template.
func Check(ps *check.Problems, p *field.Path, spec *corev1.PodSpec) {
	if spec.TerminationGracePeriodSeconds == nil {
		ps.Add(field.Required(p.Child("terminationGracePeriodSeconds"), ""))
	}
	scope := &scope{
		spec:    spec,
		volumes: checkVolumes(ps, p.Child("volumes"), spec.Volumes),
		claims:  checkPodClaims(ps, p.Child("resourceClaims"), spec.ResourceClaims),
	}
	checkContainers(ps, p.Child("containers"), scope)
	checkInitContainers(ps, p.Child("initContainers"), scope)
	checkEphemeralContainers(ps, p.Child("ephemeralContainers"), scope)
	checkPodResources(ps, p.Child("resources"), scope)
	checkHostNetwork(ps, p, spec)

	check.RequiredOneOf(ps, p.Child("restartPolicy"), spec.RestartPolicy,
		corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	check.RequiredOneOf(ps, p.Child("dnsPolicy"), spec.DNSPolicy,
		corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone)
	ps.Labels(p.Child("nodeSelector"), spec.NodeSelector)
	checkPodSecurity(ps, p, spec)
	checkAffinity(ps, p.Child("affinity"), spec.Affinity)
	checkDNS(ps, p.Child("dnsConfig"), spec)
	checkGates(ps, p, spec)
	checkSpread(ps, p.Child("topologySpreadConstraints"), spec.TopologySpreadConstraints)
	checkHostProcess(ps, p, spec)
	checkHostnameOverride(ps, p, spec)
	checkNames(ps, p, spec)
	CheckTolerations(ps, p.Child("tolerations"), spec.Tolerations)
	if d := spec.ActiveDeadlineSeconds; d != nil && (*d < 1 || *d > math.MaxInt32) {
		ps.Add(field.Invalid(p.Child("activeDeadlineSeconds"), *d, validation.InclusiveRangeError(1, math.MaxInt32)))
	}
	if spec.PreemptionPolicy != nil {
		check.RequiredOneOf(ps, p.Child("preemptionPolicy"), *spec.PreemptionPolicy, PreemptionPolicies...)
	}
	if spec.Overhead != nil {
		CheckRequirements(ps, p.Child("overhead"), &corev1.ResourceRequirements{Limits: spec.Overhead}, ContainerResource)
	}
	if spec.OS != nil && ps.Required(p.Child("os", "name"), string(spec.OS.Name)) {
		check.OneOf(ps, p.Child("os"), spec.OS.Name, corev1.Linux, corev1.Windows)
	}
	checkFileVolumes(ps, p, spec)
}

var PreemptionPolicies = []corev1.PreemptionPolicy{corev1.PreemptLowerPriority, corev1.PreemptNever}

// checkHostnameOverride checks the name that a pod has instead of its own.
func checkHostnameOverride(ps *check.Problems, p *field.Path, spec *corev1.PodSpec) {
	if spec.HostnameOverride == nil {
		return
	}
	at, name := p.Child("hostnameOverride"), *spec.HostnameOverride
	ps.Allowed(!optional.Deref(spec.SetHostnameAsFQDN), at, "may not be specified when setHostnameAsFQDN is true")
	ps.Allowed(!spec.HostNetwork, at, "may not be specified when hostNetwork is true")
	ps.AtMostBytes(at, len(name), maxHostname)
	ps.Subdomain(at, name)
}

// maxHostname is how long the kernel lets the name of a host be.
const maxHostname = 64

// checkNames checks everything in a pod that is a name of something outside.
func checkNames(ps *check.Problems, p *field.Path, spec *corev1.PodSpec) {
	for _, name := range []struct {
		path, value string
		check       func(*field.Path, string)
	}{
		{"serviceAccountName", spec.ServiceAccountName, ps.Subdomain},
		{"nodeName", spec.NodeName, ps.Subdomain},
		{"priorityClassName", spec.PriorityClassName, ps.Subdomain},
		{"hostname", spec.Hostname, ps.DNSLabel},
		{"subdomain", spec.Subdomain, ps.DNSLabel},
	} {
		if name.value != "" {
			name.check(p.Child(name.path), name.value)
		}
	}
	if spec.RuntimeClassName != nil {
		ps.Subdomain(p.Child("runtimeClassName"), *spec.RuntimeClassName)
	}
	for i, alias := range spec.HostAliases {
		at := p.Child("hostAliases").Index(i)
		ps.All(validation.IsValidIPForLegacyField(at.Child("ip"), alias.IP, true, nil))
		for j, name := range alias.Hostnames {
			ps.Subdomain(at.Child("hostnames").Index(j), name)
		}
	}
}

func checkGates(ps *check.Problems, p *field.Path, spec *corev1.PodSpec) {
	for i, g := range spec.ReadinessGates {
		ps.Each(p.Child("readinessGates").Index(i).Child("conditionType"), string(g.ConditionType), validation.IsQualifiedName(string(g.ConditionType)))
	}
	seen := map[string]bool{}
	for i, g := range spec.SchedulingGates {
		at := p.Child("schedulingGates").Index(i)
		ps.Each(at, g.Name, validation.IsQualifiedName(g.Name))
		ps.Unique(!seen[g.Name], at, g.Name)
		seen[g.Name] = true
	}
}

// checkHostNetwork requires ports in the host's network to be the host's.
func checkHostNetwork(ps *check.Problems, p *field.Path, spec *corev1.PodSpec) {
	if !spec.HostNetwork {
		return
	}
	for i, c := range spec.Containers {
		for j, port := range c.Ports {
			at := p.Child("containers").Index(i).Child("ports").Index(j).Child("hostPort")
			// Templates may leave the host port open; pods get it by default.
			ps.Valid(port.HostPort == 0 || port.HostPort == port.ContainerPort,
				at, port.HostPort, "must match `containerPort` when `hostNetwork` is true")
		}
	}
}

// CheckSelects requires a selector to find what the template makes. A missing
// selector finds nothing, an empty one everything.
func CheckSelects(ps *check.Problems, p *field.Path, s labels.Selector, template *corev1.PodTemplateSpec) {
	ps.Valid(s.Empty() || s.Matches(labels.Set(template.Labels)),
		p.Child("metadata", "labels"), template.Labels, "`selector` does not match template `labels`")
}
