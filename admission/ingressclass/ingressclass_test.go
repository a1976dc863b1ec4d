package ingressclass_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/ingressclass"
	"github.com/planekit/planekit/localcache"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func class(name string, created int64, isDefault string) *networkingv1.IngressClass {
	return &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{
		Name: name, CreationTimestamp: metav1.Unix(created, 0),
		Annotations: map[string]string{networkingv1.AnnotationIsDefaultIngressClass: isDefault},
	}}
}

// An ingress that names no class gets the default one.
func Example() {
	plugin := ingressclass.Default{Classes: localcache.NewMap(class("web", 1, "true"))}
	ingress := &networkingv1.Ingress{}
	err := plugin.Mutate(context.Background(), &admission.Request{Operation: admission.Create, Object: ingress})
	fmt.Println(*ingress.Spec.IngressClassName, err)
	// Output: web <nil>
}

func TestMutate(t *testing.T) {
	all := []*networkingv1.IngressClass{class("old", 1, "true"), class("z", 9, "true"), class("b", 9, "true"), class("new", 10, "false")}
	for _, test := range []struct {
		name    string
		classes []*networkingv1.IngressClass
		change  func(*admission.Request, *networkingv1.Ingress)
		want    string
	}{
		{name: "newest default, then by name", classes: all, want: "b 0"},
		{name: "no default", classes: all[3:], want: "none 0"},
		{name: "no class", want: "none 0"},
		{name: "own class", classes: all, want: "mine 0",
			change: func(_ *admission.Request, in *networkingv1.Ingress) { in.Spec.IngressClassName = new("mine") }},
		{name: "old annotation", classes: all, want: "none 1",
			change: func(_ *admission.Request, in *networkingv1.Ingress) {
				in.Annotations = map[string]string{"kubernetes.io/ingress.class": ""}
			}},
		{name: "update", classes: all, want: "none 0",
			change: func(r *admission.Request, _ *networkingv1.Ingress) { r.Operation = admission.Update }},
		{name: "status", classes: all, want: "none 0",
			change: func(r *admission.Request, _ *networkingv1.Ingress) { r.Subresource = "status" }},
	} {
		ingress, warnings := &networkingv1.Ingress{}, 0
		r := &admission.Request{Operation: admission.Create, Object: ingress, Warn: func(string) { warnings++ }}
		if test.change != nil {
			test.change(r, ingress)
		}
		if err := (ingressclass.Default{Classes: localcache.NewMap(test.classes...)}).Mutate(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		got := "none"
		if ingress.Spec.IngressClassName != nil {
			got = *ingress.Spec.IngressClassName
		}
		if got = fmt.Sprint(got, " ", warnings); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}
