package apiserver_test

import (
	"testing"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// lamp has a spec and a status with parts that a shallow copy would share.
type lamp struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   lampSpec   `json:"spec,omitempty"`
	Status lampStatus `json:"status,omitempty"`
}

type lampSpec struct {
	Colors []string `json:"colors,omitempty"`
}

type lampStatus struct {
	Lit []string `json:"lit,omitempty"`
}

func (l *lamp) DeepCopyObject() runtime.Object {
	c := &lamp{TypeMeta: l.TypeMeta, ObjectMeta: *l.ObjectMeta.DeepCopy()}
	c.Spec.Colors = append([]string(nil), l.Spec.Colors...)
	c.Status.Lit = append([]string(nil), l.Status.Lit...)
	return c
}

type lampList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []lamp `json:"items"`
}

func (l *lampList) DeepCopyObject() runtime.Object {
	c := &lampList{l.TypeMeta, *l.ListMeta.DeepCopy(), nil}
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopyObject().(*lamp))
	}
	return c
}

func lamps() apiserver.Resource {
	strategy, status := apiserver.SpecStatus(
		func(l *lamp) *lampSpec { return &l.Spec },
		func(l *lamp) *lampStatus { return &l.Status })
	return apiserver.Resource{
		Group: "example.com", Version: "v1", Kind: "Lamp", Plural: "lamps", Namespaced: true,
		New:          func() runtime.Object { return &lamp{} },
		NewList:      func() runtime.Object { return &lampList{} },
		Strategy:     strategy,
		Subresources: []apiserver.Subresource{status},
	}
}

// TestSpecStatus: each of the two paths changes its own part, and the generation counts changes of
// the spec.
func TestSpecStatus(t *testing.T) {
	s := apiservertest.Start(t, apiservertest.WithResources(lamps()))
	a := &api{t, s.Client(), s.URL}
	const all = "/apis/example.com/v1/namespaces/default/lamps"
	const path = all + "/one"
	object := func(labels, spec, status string) string {
		return `{"apiVersion":"example.com/v1","kind":"Lamp","metadata":{"name":"one","labels":{"room":"` + labels + `"}},` +
			`"spec":{"colors":["` + spec + `"]},"status":{"lit":["` + status + `"]}}`
	}
	for _, step := range []struct {
		method, path, body string
		code               int
		room, spec, status string
		generation         int64
	}{
		{"POST", all, object("hall", "red", "red"), 201, "hall", "red", "", 1},
		{"PUT", path + "/status", object("attic", "blue", "red"), 200, "hall", "red", "red", 1},
		{"PUT", path, object("attic", "red", "green"), 200, "attic", "red", "red", 1},
		{"PUT", path, object("attic", "blue", "green"), 200, "attic", "blue", "red", 2},
		{"PATCH", path, `{"status":{"lit":["green"]}}`, 200, "attic", "blue", "red", 2},
		{"PATCH", path + "/status", `{"spec":{"colors":["green"]},"status":{"lit":["blue"]},"metadata":{"finalizers":["x/y"]}}`, 200, "attic", "blue", "blue", 2},
		{"PATCH", path, `{"spec":{"colors":["green"]}}`, 200, "attic", "green", "blue", 3},
		{"GET", path + "/status", "", 200, "attic", "green", "blue", 3},
	} {
		media := "Content-Type: application/json"
		if step.method == "PATCH" {
			media = "Content-Type: application/merge-patch+json"
		}
		got := into[lamp](t, a.want(a.do(step.method, step.path, step.body, media), step.code, ""))
		lit := ""
		if len(got.Status.Lit) > 0 {
			lit = got.Status.Lit[0]
		}
		if got.Labels["room"] != step.room || got.Spec.Colors[0] != step.spec || lit != step.status || got.Generation != step.generation || len(got.Finalizers) > 0 {
			t.Errorf("%s %s = %+v, want room %s, the spec %s, the status %q, generation %d and no finalizers",
				step.method, step.path, got, step.room, step.spec, step.status, step.generation)
		}
	}
	for _, f := range into[lamp](t, a.do("GET", path, "")).ManagedFields {
		if f.Subresource == "status" && f.FieldsV1.GetRawString() != `{"f:status":{"f:lit":{}}}` {
			t.Errorf("through the status, %s owns %s", f.Manager, f.FieldsV1.GetRawString())
		}
	}
}

// TestSpecStatusShares: what is stored shares no part with what it replaces.
func TestSpecStatusShares(t *testing.T) {
	r := lamps()
	old := &lamp{Spec: lampSpec{Colors: []string{"red"}}, Status: lampStatus{Lit: []string{"red"}}}
	updated := &lamp{Spec: lampSpec{Colors: []string{"red"}}}
	r.Strategy.PrepareForUpdate(t.Context(), updated, old)
	updated.Status.Lit[0] = "blue"
	shown := &lamp{Status: lampStatus{Lit: []string{"green"}}}
	r.Subresources[0].(apiserver.Status).Strategy.PrepareForUpdate(t.Context(), shown, old)
	shown.Spec.Colors[0] = "blue"
	if old.Spec.Colors[0] != "red" || old.Status.Lit[0] != "red" {
		t.Errorf("old was changed: %+v", old)
	}
}
