package serviceaccount_test

import (
	"context"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/serviceaccount"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// limited is a copy with one account, which lists the secret "good" and the pull
// secret "registry".
type limited struct{ annotation string }

func (l limited) Get(key string) (*corev1.ServiceAccount, bool) {
	a := &corev1.ServiceAccount{Secrets: []corev1.ObjectReference{{Name: "good"}}, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}}}
	a.Name = "web"
	if l.annotation != "" {
		a.Annotations = map[string]string{serviceaccount.EnforceMountableSecrets: l.annotation}
	}
	return a, key == "shop/web"
}

func (l limited) lookup(_ context.Context, _, name string) (*corev1.ServiceAccount, error) {
	return nil, apierrors.NewNotFound(corev1.Resource("serviceaccounts"), name)
}

func (l limited) plugin(t *testing.T) *serviceaccount.Plugin {
	t.Helper()
	p, err := serviceaccount.New(serviceaccount.Config{Accounts: l, Lookup: l.lookup, NoTokenVolume: true})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func env(secret string) []corev1.EnvVar {
	return []corev1.EnvVar{{Name: "PLAIN", Value: "x"}, {Name: "FIELD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{}}},
		{Name: "KEY", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: secret}}}}}
}

func envFrom(secret string) []corev1.EnvFromSource {
	return []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{}}, {SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: secret}}}}
}

// TestMountableSecrets has pods refer to a secret in every way: one in the list is
// allowed, one that is not is refused in Kubernetes' words, where that is enforced.
func TestMountableSecrets(t *testing.T) {
	const because = ` is not allowed because service account web does not reference that `
	for name, way := range map[string]struct {
		refer func(spec *corev1.PodSpec, secret string)
		want  string // with the secret "bad"
	}{
		"volume": {func(s *corev1.PodSpec, secret string) {
			s.Volumes = []corev1.Volume{{Name: "tmp"}, {Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}}}}
		}, `volume with secret.secretName="bad"` + because + "secret"},
		"init env": {func(s *corev1.PodSpec, secret string) {
			s.InitContainers = []corev1.Container{{Name: "i", Env: env(secret)}}
		}, `init container i with envVar KEY referencing secret.secretName="bad"` + because + "secret"},
		"init envFrom": {func(s *corev1.PodSpec, secret string) {
			s.InitContainers = []corev1.Container{{Name: "first"}, {Name: "i", EnvFrom: envFrom(secret)}}
		}, `init container i with envFrom referencing secret.secretName="bad"` + because + "secret"},
		"env": {func(s *corev1.PodSpec, secret string) {
			s.Containers = []corev1.Container{{Name: "c", Env: env(secret)}}
		}, `container c with envVar KEY referencing secret.secretName="bad"` + because + "secret"},
		"envFrom": {func(s *corev1.PodSpec, secret string) {
			s.Containers = []corev1.Container{{Name: "c", EnvFrom: envFrom(secret)}}
		}, `container c with envFrom referencing secret.secretName="bad"` + because + "secret"},
		"pull secret": {func(s *corev1.PodSpec, secret string) {
			if secret == "good" {
				secret = "registry"
			}
			s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}, {Name: secret}}
		}, `imagePullSecrets[1].name="bad"` + because + "imagePullSecret"},
	} {
		for annotation, enforced := range map[string]bool{"": false, "false": false, "yes": false, "true": true, "1": true, "T": true} {
			for _, secret := range []string{"good", "bad"} {
				p := pod("p", "web")
				way.refer(&p.Spec, secret)
				want := ""
				if enforced && secret == "bad" {
					want = `pods "p" is forbidden: ` + way.want
				}
				check(t, name+", "+annotation+", "+secret, admit(t.Context(), limited{annotation}.plugin(t), create(p)), want)
			}
		}
	}
}

// TestMountableSecretsOfAnother: a pull secret is no other secret, nor the other
// way round.
func TestMountableSecretsOfAnother(t *testing.T) {
	p := pod("p", "web")
	p.Spec.Containers = []corev1.Container{{Name: "c", EnvFrom: envFrom("registry")}}
	check(t, "a pull secret as a variable", admit(t.Context(), limited{"true"}.plugin(t), create(p)),
		`pods "p" is forbidden: container c with envFrom referencing secret.secretName="registry" is not allowed because service account web does not reference that secret`)
	p = pod("p", "web")
	p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "good"}}
	check(t, "a secret to pull with", admit(t.Context(), limited{"true"}.plugin(t), create(p)),
		`pods "p" is forbidden: imagePullSecrets[0].name="good" is not allowed because service account web does not reference that imagePullSecret`)
}

// TestMountableSecretsOfEphemeralContainers: they come into a pod that runs.
func TestMountableSecretsOfEphemeralContainers(t *testing.T) {
	const because = ` is not allowed because service account web does not reference that secret`
	ephemeral := func(account string, c corev1.EphemeralContainerCommon) *admission.Request {
		p := pod("p", account)
		// What the pod was created with was looked at then.
		p.Spec.Containers = []corev1.Container{{Name: "c", EnvFrom: envFrom("bad")}}
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: c}}
		r := create(p)
		r.Operation, r.Subresource, r.OldObject = admission.Update, "ephemeralcontainers", pod("p", account)
		return r
	}
	for name, test := range map[string]struct {
		annotation, account string
		c                   corev1.EphemeralContainerCommon
		want                string
	}{
		"none":         {"true", "web", corev1.EphemeralContainerCommon{Name: "e"}, ""},
		"good":         {"true", "web", corev1.EphemeralContainerCommon{Name: "e", Env: env("good"), EnvFrom: envFrom("good")}, ""},
		"not enforced": {"", "web", corev1.EphemeralContainerCommon{Name: "e", Env: env("bad")}, ""},
		"env": {"true", "web", corev1.EphemeralContainerCommon{Name: "e", Env: env("bad")},
			`pods "p" is forbidden: ephemeral container e with envVar KEY referencing secret.secretName="bad"` + because},
		"envFrom": {"true", "web", corev1.EphemeralContainerCommon{Name: "e", EnvFrom: envFrom("bad")},
			`pods "p" is forbidden: ephemeral container e with envFrom referencing secret.secretName="bad"` + because},
		"no account":      {"true", "", corev1.EphemeralContainerCommon{Name: "e"}, `pods "p" is forbidden: no service account specified for pod shop/p`},
		"account is gone": {"true", "none", corev1.EphemeralContainerCommon{Name: "e"}, `pods "p" is forbidden: error looking up service account shop/none: serviceaccount "none" not found`},
	} {
		check(t, name, admit(t.Context(), limited{test.annotation}.plugin(t), ephemeral(test.account, test.c)), test.want)
	}
}

func check(t *testing.T, name string, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if got != want || isForbidden(err) != (want != "") {
		t.Errorf("%s: %q, want %q", name, got, want)
	}
}
