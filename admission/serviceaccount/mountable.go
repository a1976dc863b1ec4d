package serviceaccount

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/internal/podspec"
	corev1 "k8s.io/api/core/v1"
)

// EnforceMountableSecrets is an annotation of service accounts. The value "true" restricts their
// pods to the secrets and image pull secrets in their lists.
const EnforceMountableSecrets = "kubernetes.io/enforce-mountable-secrets"

// mountable checks references against the secrets of an account.
type mountable struct{ account *corev1.ServiceAccount }

// enforced reports whether the account restricts its pods.
func (m mountable) enforced() bool {
	on, err := strconv.ParseBool(m.account.Annotations[EnforceMountableSecrets])
	return err == nil && on
}

func (m mountable) has(secret string) bool {
	return slices.ContainsFunc(m.account.Secrets, func(s corev1.ObjectReference) bool { return s.Name == secret })
}

// validate checks a new pod. As in Kubernetes, it checks only volumes of type secret.
func (m mountable) validate(spec *corev1.PodSpec) error {
	if !m.enforced() {
		return nil
	}
	for i := range spec.Volumes {
		if s := spec.Volumes[i].Secret; s != nil && !m.has(s.SecretName) {
			return m.refuse("volume with secret.secretName=%q", s.SecretName)
		}
	}
	if err := m.validateContainers(spec); err != nil {
		return err
	}
	for i, pull := range spec.ImagePullSecrets {
		if !slices.Contains(m.account.ImagePullSecrets, pull) {
			return fmt.Errorf("imagePullSecrets[%d].name=%q is not allowed because service account %s does not reference that imagePullSecret", i, pull.Name, m.account.Name)
		}
	}
	return nil
}

// called maps lists of containers to their names in messages.
var called = map[string]string{
	"initContainers": "init container", "containers": "container", "ephemeralContainers": "ephemeral container",
}

func (m mountable) validateContainers(spec *corev1.PodSpec) error {
	if !m.enforced() {
		return nil
	}
	for place, c := range podspec.Containers(spec) {
		which := called[place.List] + " " + c.Name
		for i := range c.Env {
			if from := c.Env[i].ValueFrom; from != nil && from.SecretKeyRef != nil && !m.has(from.SecretKeyRef.Name) {
				return m.refuse("%s with envVar %s referencing secret.secretName=%q", which, c.Env[i].Name, from.SecretKeyRef.Name)
			}
		}
		for i := range c.EnvFrom {
			if s := c.EnvFrom[i].SecretRef; s != nil && !m.has(s.Name) {
				return m.refuse("%s with envFrom referencing secret.secretName=%q", which, s.Name)
			}
		}
	}
	return nil
}

func (m mountable) refuse(format string, args ...any) error {
	return fmt.Errorf("%s is not allowed because service account %s does not reference that secret", fmt.Sprintf(format, args...), m.account.Name)
}

// validateEphemeral checks ephemeral containers that are added to a pod.
func (p *Plugin) validateEphemeral(ctx context.Context, r *admission.Request, pod *corev1.Pod) error {
	if pod.Spec.ServiceAccountName == "" {
		return admission.Forbidden(r, fmt.Errorf("no service account specified for pod %s/%s", r.Namespace, pod.Name))
	}
	account, err := p.account(ctx, r, pod.Spec.ServiceAccountName)
	if err != nil {
		return err
	}
	// The other containers were checked when the pod was created.
	added := corev1.PodSpec{EphemeralContainers: pod.Spec.EphemeralContainers}
	if err := (mountable{account}).validateContainers(&added); err != nil {
		return admission.Forbidden(r, err)
	}
	return nil
}
