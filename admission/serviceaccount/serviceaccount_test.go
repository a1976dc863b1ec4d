package serviceaccount_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/serviceaccount"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// accounts maps namespace/name to the pull secrets of an account.
type accounts map[string][]corev1.LocalObjectReference

func (a accounts) Get(key string) (*corev1.ServiceAccount, bool) {
	secrets, ok := a[key]
	return &corev1.ServiceAccount{ImagePullSecrets: secrets}, ok
}

func (a accounts) lookup(_ context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	if account, ok := a.Get(namespace + "/" + name); ok {
		return account, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "serviceaccounts"}, name)
}

func create(pod *corev1.Pod) *admission.Request {
	return &admission.Request{Operation: admission.Create, Namespace: "shop", Name: pod.Name, Object: pod,
		Resource: admission.GroupVersionResource{Version: "v1", Resource: "pods"}}
}

func pod(name, account string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{ServiceAccountName: account}}
}

func admit(ctx context.Context, p *serviceaccount.Plugin, r *admission.Request) error {
	chain := admission.Chain{Mutators: []admission.Mutator{p}, Validators: []admission.Validator{p}}
	if err := chain.Mutate(ctx, r); err != nil {
		return err
	}
	return chain.Validate(ctx, r)
}

func Example() {
	stored := accounts{"shop/default": {{Name: "registry"}}}
	plugin, err := serviceaccount.New(serviceaccount.Config{Accounts: stored, Lookup: stored.lookup})
	if err != nil {
		fmt.Println(err)
		return
	}
	web := pod("web", "")
	fmt.Println(admit(context.Background(), plugin, create(web)))
	fmt.Println(web.Spec.ServiceAccountName, web.Spec.ImagePullSecrets)
	fmt.Println(admit(context.Background(), plugin, create(pod("db", "admin"))))
	// Output:
	// <nil>
	// default [{registry}]
	// pods "db" is forbidden: error looking up service account shop/admin: serviceaccount "admin" not found
}

func TestAdmit(t *testing.T) {
	cached := accounts{"shop/default": {{Name: "registry"}}}
	stored := accounts{"shop/default": {{Name: "registry"}}, "shop/new": nil}
	plugin, err := serviceaccount.New(serviceaccount.Config{Accounts: cached, Lookup: stored.lookup})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()

	late := pod("web", "new")
	if err := admit(ctx, plugin, create(late)); err != nil || late.Spec.ServiceAccountName != "new" {
		t.Errorf("an account that the copy does not know yet: %v", err)
	}
	deprecated := pod("web", "")
	deprecated.Spec.DeprecatedServiceAccount = "new"
	if err := admit(ctx, plugin, create(deprecated)); err != nil || deprecated.Spec.ServiceAccountName != "new" {
		t.Errorf("the deprecated field: %q %v", deprecated.Spec.ServiceAccountName, err)
	}
	own := pod("web", "")
	own.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "own"}}
	if err := admit(ctx, plugin, create(own)); err != nil || len(own.Spec.ImagePullSecrets) != 1 || own.Spec.ImagePullSecrets[0].Name != "own" {
		t.Errorf("own pull secrets: %v %v", own.Spec.ImagePullSecrets, err)
	}
	a, b := pod("a", ""), pod("b", "")
	if admit(ctx, plugin, create(a)) != nil || admit(ctx, plugin, create(b)) != nil {
		t.Error("refused")
	}
	a.Spec.ImagePullSecrets[0].Name = "changed"
	if b.Spec.ImagePullSecrets[0].Name != "registry" {
		t.Error("two pods share the secrets of the account")
	}

	update := create(pod("web", "none"))
	update.Operation = admission.Update
	status := create(pod("web", "none"))
	status.Subresource = "status"
	other := create(pod("web", "none"))
	other.Resource.Resource = "nodes"
	for _, r := range []*admission.Request{update, status, other} {
		if err := admit(ctx, plugin, r); err != nil {
			t.Errorf("admit(%s of %s, subresource %q) = %v, want nil", r.Operation, r.Resource.Resource, r.Subresource, err)
		}
	}
	nameless := create(pod("", "none"))
	nameless.Object.(*corev1.Pod).GenerateName = "web-"
	want := `pods "web-" is forbidden: error looking up service account shop/none: serviceaccount "none" not found`
	if err := plugin.Validate(ctx, nameless); err == nil || err.Error() != want || !isForbidden(err) {
		t.Errorf("Validate(a pod with generateName alone) = %v, want Forbidden: %s", err, want)
	}
}

func TestMirrorPods(t *testing.T) {
	plugin, err := serviceaccount.New(serviceaccount.Config{Accounts: accounts{}, Lookup: accounts{}.lookup})
	if err != nil {
		t.Fatal(err)
	}
	secret := corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "x"}}
	projected := func(s corev1.VolumeProjection) corev1.VolumeSource {
		return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{s}}}
	}
	for name, test := range map[string]struct {
		account string
		volume  corev1.VolumeSource
		refused bool
	}{
		"plain":            {},
		"account":          {account: "default", refused: true},
		"secret":           {volume: secret, refused: true},
		"projected secret": {volume: projected(corev1.VolumeProjection{Secret: &corev1.SecretProjection{}}), refused: true},
		"projected token":  {volume: projected(corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}), refused: true},
		"projected map":    {volume: projected(corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{}})},
	} {
		m := pod("static", test.account)
		m.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
		m.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: test.volume}}
		err := admit(context.Background(), plugin, create(m))
		if isForbidden(err) != test.refused {
			t.Errorf("%s: admit(a mirror pod) = %v, want Forbidden: %t", name, err, test.refused)
		}
		if m.Spec.ServiceAccountName != test.account {
			t.Errorf("%s: the mirror pod was changed", name)
		}
	}
}

func TestWaitsForTheDefaultAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stored := accounts{}
		asked := 0
		plugin, err := serviceaccount.New(serviceaccount.Config{Accounts: accounts{},
			Lookup: func(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
				if asked++; asked == 4 {
					stored["shop/default"] = nil
				}
				return stored.lookup(ctx, namespace, name)
			}})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := plugin.Mutate(t.Context(), create(pod("web", ""))); err != nil || time.Since(start) != 300*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		delete(stored, "shop/default")
		start = time.Now()
		if err := plugin.Mutate(t.Context(), create(pod("web", ""))); !isForbidden(err) || time.Since(start) != 900*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		start = time.Now()
		if err := plugin.Mutate(t.Context(), create(pod("web", "other"))); !isForbidden(err) || time.Since(start) != 0 {
			t.Errorf("another account: %v after %v", err, time.Since(start))
		}
	})
}

func isForbidden(err error) bool {
	var refusal *admission.ForbiddenError
	return errors.As(err, &refusal)
}
