package aggregate_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/planekit/planekit/apiserver/aggregate"
	"github.com/planekit/planekit/kinds/apiregistration"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// registry is an aggregate.Registry in memory.
type registry struct {
	mu      sync.Mutex
	objects map[string]*apiregistration.APIService
	did     []string
	fail    error
}

func (r *registry) List(context.Context, string, metav1.ListOptions) ([]*apiregistration.APIService, string, error) {
	return slices.Collect(maps.Values(r.objects)), "1", nil
}

func (r *registry) Create(_ context.Context, s *apiregistration.APIService) (*apiregistration.APIService, error) {
	return s, r.do("create "+s.Name, func() { r.objects[s.Name] = s })
}

func (r *registry) Update(_ context.Context, s *apiregistration.APIService) (*apiregistration.APIService, error) {
	return s, r.do("update "+s.Name, func() { r.objects[s.Name] = s })
}

func (r *registry) Delete(_ context.Context, _, name string, _ metav1.DeleteOptions) error {
	return r.do("delete "+name, func() { delete(r.objects, name) })
}

func (r *registry) do(what string, change func()) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.did = append(r.did, what); r.fail == nil {
		change()
	}
	return r.fail
}

// TestRegister: what bears the label is put right, what does not is left alone.
func TestRegister(t *testing.T) {
	gvs := []schema.GroupVersion{{Version: "v1"}, {Group: "apps", Version: "v1"}, {Group: "batch", Version: "v1"}, {Group: "apps", Version: "v1"},
		{Group: "policy", Version: "v1"}, {Group: "apiregistration.k8s.io", Version: "v1"}, {Group: "mine.example.com", Version: "v1"}}
	local := aggregate.Local(gvs...)
	r := &registry{objects: map[string]*apiregistration.APIService{}}
	register := func(want ...string) {
		t.Helper()
		r.did = nil
		if err := aggregate.Register(t.Context(), r, local); err != nil {
			t.Error(err)
		}
		slices.Sort(r.did)
		if !slices.Equal(r.did, want) {
			t.Errorf("it did %v, want %v", r.did, want)
		}
	}
	register("create v1.", "create v1.apps", "create v1.batch", "create v1.policy")
	register()

	away := r.objects["v1.apps"].DeepCopy()
	away.Spec.Service = &apiregistration.ServiceReference{Namespace: "n", Name: "s"}
	r.objects["v1.apps"] = away
	mine := r.objects["v1.batch"].DeepCopy()
	mine.Labels, mine.Spec.VersionPriority = nil, 7
	r.objects["v1.batch"] = mine
	old := r.objects["v1.policy"].DeepCopy()
	old.Name = "v1beta1.policy"
	r.objects["v1beta1.policy"] = old
	r.objects["v1.mine.example.com"] = &apiregistration.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1.mine.example.com"}}
	delete(r.objects, "v1.")
	register("create v1.", "delete v1beta1.policy", "update v1.apps")
	if s := r.objects["v1.apps"]; s.Spec.Service != nil || s.Spec.Group != "apps" || s.Spec.GroupPriorityMinimum != 17800 {
		t.Errorf("v1.apps: %+v", s.Spec)
	}

	delete(r.objects, "v1.")
	r.fail = apierrors.NewAlreadyExists(schema.GroupResource{}, "v1.")
	register("create v1.")
	r.fail = errors.New("no room")
	if err := aggregate.Register(t.Context(), r, local); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("error %v", err)
	}
}

// configMaps is an aggregate.ConfigMaps with one in it at most.
type configMaps struct {
	stored *corev1.ConfigMap
	writes int
}

func (c *configMaps) Get(context.Context, string, string) (*corev1.ConfigMap, error) {
	return c.stored, nil
}

func (c *configMaps) Create(_ context.Context, m *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	if c.stored != nil {
		return nil, apierrors.NewAlreadyExists(schema.GroupResource{}, m.Name)
	}
	return c.Update(context.Background(), m)
}

func (c *configMaps) Update(_ context.Context, m *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	c.stored = m
	c.writes++
	return m, nil
}

// TestPublish: extension servers read the entries of kube-apiserver, and see an
// authority that is replaced.
func TestPublish(t *testing.T) {
	stored := &configMaps{}
	for i, proxyCA := range []string{"one", "one", "two"} {
		want := aggregate.AuthenticationConfigMap([]byte("clients"), []byte(proxyCA), "front", "other")
		if err := aggregate.Publish(t.Context(), stored, want); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			stored.stored.Data["more"] = "kept"
		}
	}
	want := map[string]string{
		"client-ca-file": "clients", "requestheader-client-ca-file": "two", "requestheader-allowed-names": `["front","other"]`,
		"requestheader-username-headers": `["X-Remote-User"]`, "requestheader-uid-headers": `["X-Remote-Uid"]`,
		"requestheader-group-headers": `["X-Remote-Group"]`, "requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`, "more": "kept",
	}
	if stored.writes != 2 || !maps.Equal(stored.stored.Data, want) || fmt.Sprint(stored.stored.Namespace, "/", stored.stored.Name) != "kube-system/extension-apiserver-authentication" {
		t.Errorf("%d writes, %+v", stored.writes, stored.stored)
	}
}
