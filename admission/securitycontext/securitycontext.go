// Package securitycontext prevents pods from choosing the identity of their processes: the
// SecurityContextDeny plugin of Kubernetes
// (https://v1-29.docs.kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#securitycontextdeny).
//
//	chain := admission.Chain{Validators: []admission.Validator{securitycontext.Plugin{}}}
//
// A pod is refused with 403 if it sets seLinuxOptions, runAsUser, supplementalGroups or fsGroup for
// the pod, or seLinuxOptions or runAsUser for a container, including init and ephemeral ones. Other
// fields of a security context pass: the plugin is for clusters where the nodes decide, and is not
// a sandbox. It is off by default and has no configuration.
package securitycontext

import (
	"context"
	"errors"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/internal/podspec"
	corev1 "k8s.io/api/core/v1"
)

// Name is the plugin's name in --enable-admission-plugins.
const Name = "SecurityContextDeny"

// Plugin is an [admission.Validator], so that it sees the changes of mutators. The zero value is
// ready to use.
type Plugin struct{}

// Validate refuses a pod with a denied field. The error names the first one.
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

// inPod returns the name of a denied field that is set.
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
