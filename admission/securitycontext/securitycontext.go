// Package securitycontext keeps pods from choosing whom they run as: the
// SecurityContextDeny plugin of Kubernetes
// (https://v1-29.docs.kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#securitycontextdeny).
//
//	chain := admission.Chain{Validators: []admission.Validator{securitycontext.Plugin{}}}
//
// A pod is refused with 403 when it sets seLinuxOptions, runAsUser,
// supplementalGroups or fsGroup for all of it, or seLinuxOptions or runAsUser for
// one of its containers, init and ephemeral containers among them. Everything else
// in a security context passes: this is for clusters where the nodes decide, and
// no sandbox. It is off unless it is enabled, and needs no configuration.
package securitycontext

import (
	"context"
	"errors"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/internal/podspec"
	corev1 "k8s.io/api/core/v1"
)

// Name is what the plugin is called in --enable-admission-plugins.
const Name = "SecurityContextDeny"

// Plugin is an [admission.Validator]: it looks at what the mutators made of a
// pod. The zero Plugin is ready.
type Plugin struct{}

// Validate refuses a pod with a field that is denied. The first such field is named.
func (Plugin) Validate(_ context.Context, r *admission.Request) error {
	pod, ok := podspec.Of(r, "ephemeralcontainers")
	if !ok {
		return nil
	}
	if denied := inPod(pod.Spec.SecurityContext); denied != "" {
		return admission.Forbidden(r, errors.New("pod.Spec.SecurityContext."+denied+" is forbidden"))
	}
	for _, c := range podspec.Containers(&pod.Spec) {
		if denied := inContainer(c.SecurityContext); denied != "" {
			return admission.Forbidden(r, errors.New("SecurityContext."+denied+" is forbidden"))
		}
	}
	return nil
}

// inPod names a denied field that is set.
func inPod(c *corev1.PodSecurityContext) string {
	switch {
	case c == nil:
	case c.SupplementalGroups != nil:
		return "SupplementalGroups"
	case c.SELinuxOptions != nil:
		return "SELinuxOptions"
	case c.RunAsUser != nil:
		return "RunAsUser"
	case c.FSGroup != nil:
		return "FSGroup"
	}
	return ""
}

func inContainer(c *corev1.SecurityContext) string {
	switch {
	case c == nil:
	case c.SELinuxOptions != nil:
		return "SELinuxOptions"
	case c.RunAsUser != nil:
		return "RunAsUser"
	}
	return ""
}
