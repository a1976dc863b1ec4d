package kube

import (
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validatePod(pod *corev1.Pod) field.ErrorList {
	var ps problems
	p := field.NewPath("spec")
	checkPod(&ps, pod)
	ps.allowed(len(pod.Spec.EphemeralContainers) == 0,
		p.Child("ephemeralContainers"), "cannot be set on create")
	ps.allowed(pod.Spec.NodeName == "" || len(pod.Spec.SchedulingGates) == 0,
		p.Child("nodeName"), "cannot be set until all schedulingGates have been cleared")
	return ps.list
}

// checkPod holds for pods at any time. Beyond the rules for templates it has
// those that came too late to be asked of templates.
func checkPod(ps *problems, pod *corev1.Pod) {
	p := field.NewPath("spec")
	checkPodSpec(ps, p, &pod.Spec)
	for i := range pod.Spec.Volumes {
		v, at := &pod.Spec.Volumes[i], p.Child("volumes").Index(i)
		if v.Image != nil {
			ps.required(at.Child("image", "reference"), v.Image.Reference)
		}
		if v.Projected == nil || pod.Spec.ServiceAccountName != "" {
			continue
		}
		for j, s := range v.Projected.Sources {
			ps.allowed(s.ServiceAccountToken == nil, at.Child("projected", "sources").Index(j).Child("serviceAccountToken"),
				"must not be specified when serviceAccountName is not set")
		}
	}
	checkImageSpace(ps, p.Child("containers"), pod.Spec.Containers)
	checkImageSpace(ps, p.Child("initContainers"), pod.Spec.InitContainers)
}

func checkImageSpace(ps *problems, p *field.Path, containers []corev1.Container) {
	for i, c := range containers {
		ps.valid(c.Image == strings.TrimSpace(c.Image),
			p.Index(i).Child("image"), c.Image, "must not have leading or trailing whitespace")
	}
}

// checkTemplate checks what pods are made from.
func checkTemplate(ps *problems, p *field.Path, template *corev1.PodTemplateSpec) {
	ps.labels(p.Child("labels"), template.Labels)
	ps.all(apivalidation.ValidateAnnotations(template.Annotations, p.Child("annotations")))
	checkPodSpec(ps, p.Child("spec"), &template.Spec)
	ps.allowed(len(template.Spec.EphemeralContainers) == 0,
		p.Child("spec", "ephemeralContainers"), "ephemeral containers not allowed in pod template")
}

// A podScope is what the rules for a container depend on beside the container.
type podScope struct {
	spec *corev1.PodSpec
	// volumes are those that may be mounted, by name.
	volumes map[string]*corev1.VolumeSource
	// claims are the resource claims that may be used.
	claims map[string]bool
}

// checkPodSpec checks the spec of a pod or of a template.
func checkPodSpec(ps *problems, p *field.Path, spec *corev1.PodSpec) {
	if spec.TerminationGracePeriodSeconds == nil {
		ps.add(field.Required(p.Child("terminationGracePeriodSeconds"), ""))
	}
	scope := &podScope{
		spec:    spec,
		volumes: checkVolumes(ps, p.Child("volumes"), spec.Volumes),
		claims:  checkPodClaims(ps, p.Child("resourceClaims"), spec.ResourceClaims),
	}
	checkContainers(ps, p.Child("containers"), scope)
	checkInitContainers(ps, p.Child("initContainers"), scope)
	checkEphemeralContainers(ps, p.Child("ephemeralContainers"), scope)
	checkPodResources(ps, p.Child("resources"), spec)
	checkHostNetwork(ps, p, spec)

	someOf(ps, p.Child("restartPolicy"), spec.RestartPolicy,
		corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	someOf(ps, p.Child("dnsPolicy"), spec.DNSPolicy,
		corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone)
	ps.labels(p.Child("nodeSelector"), spec.NodeSelector)
	checkPodSecurity(ps, p, spec)
	checkAffinity(ps, p.Child("affinity"), spec.Affinity)
	checkDNS(ps, p.Child("dnsConfig"), spec)
	checkGates(ps, p, spec)
	checkSpread(ps, p.Child("topologySpreadConstraints"), spec.TopologySpreadConstraints)
	checkNames(ps, p, spec)
	checkTolerations(ps, p.Child("tolerations"), spec.Tolerations)
	if d := spec.ActiveDeadlineSeconds; d != nil && (*d < 1 || *d > math.MaxInt32) {
		ps.add(field.Invalid(p.Child("activeDeadlineSeconds"), *d, validation.InclusiveRangeError(1, math.MaxInt32)))
	}
	if spec.PreemptionPolicy != nil {
		someOf(ps, p.Child("preemptionPolicy"), *spec.PreemptionPolicy, preemptionPolicies...)
	}
	if spec.Overhead != nil {
		checkRequirements(ps, p.Child("overhead"), &corev1.ResourceRequirements{Limits: spec.Overhead}, containerResource)
	}
	if spec.OS != nil {
		someOf(ps, p.Child("os", "name"), spec.OS.Name, corev1.Linux, corev1.Windows)
	}
}

var preemptionPolicies = []corev1.PreemptionPolicy{corev1.PreemptLowerPriority, corev1.PreemptNever}

// checkNames checks everything in a pod that is a name of something outside.
func checkNames(ps *problems, p *field.Path, spec *corev1.PodSpec) {
	for _, name := range []struct {
		path, value string
		check       func(*field.Path, string)
	}{
		{"serviceAccountName", spec.ServiceAccountName, ps.subdomain},
		{"nodeName", spec.NodeName, ps.subdomain},
		{"priorityClassName", spec.PriorityClassName, ps.subdomain},
		{"hostname", spec.Hostname, ps.dnsLabel},
		{"subdomain", spec.Subdomain, ps.dnsLabel},
	} {
		if name.value != "" {
			name.check(p.Child(name.path), name.value)
		}
	}
	if spec.RuntimeClassName != nil {
		ps.subdomain(p.Child("runtimeClassName"), *spec.RuntimeClassName)
	}
	for i, alias := range spec.HostAliases {
		at := p.Child("hostAliases").Index(i)
		ps.all(validation.IsValidIPForLegacyField(at.Child("ip"), alias.IP, true, nil))
		for j, name := range alias.Hostnames {
			ps.subdomain(at.Child("hostnames").Index(j), name)
		}
	}
}

func checkGates(ps *problems, p *field.Path, spec *corev1.PodSpec) {
	for i, g := range spec.ReadinessGates {
		ps.each(p.Child("readinessGates").Index(i).Child("conditionType"), string(g.ConditionType), validation.IsQualifiedName(string(g.ConditionType)))
	}
	seen := map[string]bool{}
	for i, g := range spec.SchedulingGates {
		at := p.Child("schedulingGates").Index(i)
		ps.each(at, g.Name, validation.IsQualifiedName(g.Name))
		ps.unique(!seen[g.Name], at, g.Name)
		seen[g.Name] = true
	}
}

// checkHostNetwork requires ports in the host's network to be the host's.
func checkHostNetwork(ps *problems, p *field.Path, spec *corev1.PodSpec) {
	if !spec.HostNetwork {
		return
	}
	for i, c := range spec.Containers {
		for j, port := range c.Ports {
			at := p.Child("containers").Index(i).Child("ports").Index(j).Child("hostPort")
			// Templates may leave the host port open; pods get it by default.
			ps.valid(port.HostPort == 0 || port.HostPort == port.ContainerPort,
				at, port.HostPort, "must match `containerPort` when `hostNetwork` is true")
		}
	}
}
