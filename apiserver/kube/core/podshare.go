package core

import (
	"github.com/planekit/planekit/apiserver/internal/share"
	corev1 "k8s.io/api/core/v1"
)

// templates is the number of templates of which parts are kept.
const templates = 4096

// podParts holds the parts that the pods of one template share. Whole containers differ, because
// the volume with the token has a name of its own in each pod.
type podParts struct {
	resources   *share.Table[corev1.ResourceRequirements]
	env         *share.Table[[]corev1.EnvVar]
	ports       *share.Table[[]corev1.ContainerPort]
	words       *share.Table[[]string]
	probes      *share.Table[*corev1.Probe]
	security    *share.Table[*corev1.SecurityContext]
	podSecurity *share.Table[*corev1.PodSecurityContext]
	tolerations *share.Table[[]corev1.Toleration]
	projections *share.Table[*corev1.ProjectedVolumeSource]
	affinity    *share.Table[*corev1.Affinity]
	names       *share.Table[map[string]string]
}

func newPodParts() *podParts {
	return &podParts{
		resources:   share.NewTable[corev1.ResourceRequirements](templates),
		env:         share.NewTable[[]corev1.EnvVar](templates),
		ports:       share.NewTable[[]corev1.ContainerPort](templates),
		words:       share.NewTable[[]string](templates),
		probes:      share.NewTable[*corev1.Probe](templates),
		security:    share.NewTable[*corev1.SecurityContext](templates),
		podSecurity: share.NewTable[*corev1.PodSecurityContext](templates),
		tolerations: share.NewTable[[]corev1.Toleration](templates),
		projections: share.NewTable[*corev1.ProjectedVolumeSource](templates),
		affinity:    share.NewTable[*corev1.Affinity](templates),
		names:       share.NewTable[map[string]string](templates),
	}
}

// share replaces the parts of pod by equal ones of pods before it.
func (p *podParts) share(pod *corev1.Pod) {
	spec := &pod.Spec
	share.Map(p.names, &spec.NodeSelector)
	share.Pointer(p.podSecurity, &spec.SecurityContext)
	share.Pointer(p.affinity, &spec.Affinity)
	share.List(p.tolerations, &spec.Tolerations)
	for i := range spec.Volumes {
		share.Pointer(p.projections, &spec.Volumes[i].Projected)
	}
	for _, containers := range [...][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			p.shareContainer(&containers[i])
		}
	}
}

func (p *podParts) shareContainer(c *corev1.Container) {
	share.Strings(p.words, &c.Command)
	share.Strings(p.words, &c.Args)
	share.List(p.env, &c.Env)
	share.List(p.ports, &c.Ports)
	share.Pointer(p.probes, &c.LivenessProbe)
	share.Pointer(p.probes, &c.ReadinessProbe)
	share.Pointer(p.probes, &c.StartupProbe)
	share.Pointer(p.security, &c.SecurityContext)
	if c.Resources.Limits != nil || c.Resources.Requests != nil {
		share.Value(p.resources, &c.Resources)
	}
}
