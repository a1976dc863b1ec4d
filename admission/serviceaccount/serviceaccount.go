// Package serviceaccount assigns a service account to every new pod: the ServiceAccount plugin of
// Kubernetes
// (https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#serviceaccount-admission-controller).
//
//	accounts, err := serviceaccount.New(serviceaccount.Config{Accounts: informer, Lookup: get})
//	chain := admission.Chain{
//		Mutators:   []admission.Mutator{accounts},
//		Validators: []admission.Validator{accounts},
//	}
//
// A pod without an account gets "default". A pod with a missing account is refused with 403. A pod
// without image pull secrets gets those of its account. A mirror pod, which represents a static
// pod, is not changed and must not name an account or a secret.
//
// Pods of an account with the annotation [EnforceMountableSecrets] may refer only to secrets in its
// list, in volumes and variables of any container, and only to image pull secrets in its list.
//
// The cache may be stale: an account that it does not have is looked up. A controller creates the
// account "default" shortly after its namespace, so the plugin waits up to a second for it.
//
// A pod gets a volume with a token of its account, the API server's authority and the namespace,
// mounted at [TokenMountPath] into every container that has no other mount there. It gets none if
// the pod, or else its account, has automountServiceAccountToken: false. The volume requires a
// kubelet that requests tokens and a config map [RootCAConfigMap] in the namespace; NoTokenVolume
// leaves it out.
package serviceaccount

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/internal/podspec"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// DefaultName is the account of pods that do not name one.
const DefaultName = "default"

// A missing default account is looked up this many times, at this interval.
const (
	attempts = 10
	interval = 100 * time.Millisecond
)

// Config configures the plugin. Accounts and Lookup are required.
type Config struct {
	// Accounts is the cache of service accounts, by namespace/name.
	Accounts localcache.Getter[*corev1.ServiceAccount]
	// Lookup reads an account from the store. It fails with a NotFound API error if there is none.
	Lookup func(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error)
	// NoTokenVolume is for clusters without an issuer of tokens.
	NoTokenVolume bool
}

// Plugin is an [admission.Mutator] and an [admission.Validator].
type Plugin struct {
	config Config
}

// New returns the plugin.
func New(c Config) (*Plugin, error) {
	if c.Accounts == nil || c.Lookup == nil {
		return nil, errors.New("serviceaccount: Accounts and Lookup must be set")
	}
	return &Plugin{config: c}, nil
}

// Mutate completes a new pod from its account.
func (p *Plugin) Mutate(ctx context.Context, r *admission.Request) error {
	pod, ok := newPod(r)
	if !ok || mirror(pod) {
		return nil
	}
	spec := &pod.Spec
	if spec.ServiceAccountName == "" {
		spec.ServiceAccountName = spec.DeprecatedServiceAccount
	}
	if spec.ServiceAccountName == "" {
		spec.ServiceAccountName = DefaultName
	}
	spec.DeprecatedServiceAccount = spec.ServiceAccountName
	account, err := p.account(ctx, r, spec.ServiceAccountName)
	if err != nil {
		return err
	}
	if len(spec.ImagePullSecrets) == 0 {
		spec.ImagePullSecrets = slices.Clone(account.ImagePullSecrets)
	}
	if !p.config.NoTokenVolume && automount(pod, account) {
		mountCredentials(pod)
	}
	return nil
}

// Validate checks the account of a new pod, which other mutators may have changed, and the secrets
// that the pod may refer to.
func (p *Plugin) Validate(ctx context.Context, r *admission.Request) error {
	if r.Operation == admission.Update && r.Subresource == "ephemeralcontainers" {
		if pod, ok := podspec.Of(r, r.Subresource); ok {
			return p.validateEphemeral(ctx, r, pod)
		}
	}
	pod, ok := newPod(r)
	if !ok {
		return nil
	}
	if mirror(pod) {
		return validateMirror(r, pod)
	}
	account, err := p.account(ctx, r, pod.Spec.ServiceAccountName)
	if err != nil {
		return err
	}
	if err := (mountable{account}).validate(&pod.Spec); err != nil {
		return admission.Forbidden(r, err)
	}
	return nil
}

func newPod(r *admission.Request) (*corev1.Pod, bool) {
	if r.Operation != admission.Create || r.Subresource != "" ||
		r.Resource.Group != corev1.GroupName || r.Resource.Resource != "pods" {
		return nil, false
	}
	pod, ok := r.Object.(*corev1.Pod)
	return pod, ok
}

func mirror(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}

func validateMirror(r *admission.Request, pod *corev1.Pod) error {
	if pod.Spec.ServiceAccountName != "" {
		return admission.Forbidden(r, errors.New("a mirror pod may not reference service accounts"))
	}
	for _, v := range pod.Spec.Volumes {
		if v.Secret != nil {
			return admission.Forbidden(r, errors.New("a mirror pod may not reference secrets"))
		}
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.Secret != nil {
				return admission.Forbidden(r, errors.New("a mirror pod may not reference secrets"))
			}
			if s.ServiceAccountToken != nil {
				return admission.Forbidden(r, errors.New("a mirror pod may not use ServiceAccountToken volume projections"))
			}
		}
	}
	return nil
}

// account returns an account, or an error that refuses the pod.
func (p *Plugin) account(ctx context.Context, r *admission.Request, name string) (*corev1.ServiceAccount, error) {
	if account, ok := p.config.Accounts.Get(r.Namespace + "/" + name); ok {
		return account, nil
	}
	account, err := p.config.Lookup(ctx, r.Namespace, name)
	for i := 1; i < attempts && name == DefaultName && apierrors.IsNotFound(err); i++ {
		if err := pause(ctx); err != nil {
			return nil, err
		}
		account, err = p.config.Lookup(ctx, r.Namespace, name)
	}
	if apierrors.IsNotFound(err) {
		err = apierrors.NewNotFound(corev1.Resource("serviceaccount"), name)
	}
	if err != nil {
		return nil, admission.Forbidden(r, fmt.Errorf("error looking up service account %s/%s: %w", r.Namespace, name, err))
	}
	return account, nil
}

func pause(ctx context.Context) error {
	timer := time.NewTimer(interval)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
