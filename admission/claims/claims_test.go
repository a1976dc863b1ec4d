package claims_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/claims"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func classes(names ...string) *localcache.Map[*storagev1.StorageClass] {
	m := localcache.NewMap[*storagev1.StorageClass]()
	for _, name := range names {
		m.Put(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name,
			Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}}})
	}
	return m
}

// A claim that says nothing about its class gets the default, and is kept while it is in use.
func Example() {
	chain := admission.Chain{Mutators: []admission.Mutator{claims.DefaultClass{Classes: classes("fast")}, claims.Protection{}}}
	claim := &corev1.PersistentVolumeClaim{}
	err := chain.Mutate(context.Background(), &admission.Request{Operation: admission.Create, Object: claim})
	fmt.Println(*claim.Spec.StorageClassName, claim.Finalizers, err)
	// Output: fast [kubernetes.io/pvc-protection] <nil>
}

func TestMutate(t *testing.T) {
	empty := ""
	for _, test := range []struct {
		name   string
		change func(*admission.Request)
		claim  corev1.PersistentVolumeClaim
		want   string
	}{
		{name: "new", want: "a [kubernetes.io/pvc-protection]"},
		{name: "no class wanted", claim: corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &empty}},
			want: " [kubernetes.io/pvc-protection]"},
		{name: "old annotation", claim: corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Annotations: map[string]string{corev1.BetaStorageClassAnnotation: "old"}, Finalizers: []string{"x", "kubernetes.io/pvc-protection"}}},
			want: "none [x kubernetes.io/pvc-protection]"},
		{name: "update", change: func(r *admission.Request) { r.Operation = admission.Update }, want: "none []"},
		{name: "status", change: func(r *admission.Request) { r.Subresource = "status" }, want: "none []"},
	} {
		claim := test.claim.DeepCopy()
		r := &admission.Request{Operation: admission.Create, Object: claim}
		if test.change != nil {
			test.change(r)
		}
		chain := admission.Chain{Mutators: []admission.Mutator{claims.DefaultClass{Classes: classes("b", "a")}, claims.Protection{}}}
		if err := chain.Mutate(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		class := "none"
		if claim.Spec.StorageClassName != nil {
			class = *claim.Spec.StorageClassName
		}
		if got := fmt.Sprint(class, " ", claim.Finalizers); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
	v := &corev1.PersistentVolume{}
	if err := (claims.Protection{}).Mutate(t.Context(), &admission.Request{Operation: admission.Create, Object: v}); err != nil || fmt.Sprint(v.Finalizers) != "[kubernetes.io/pv-protection]" {
		t.Errorf("volume: %v, %v", v.Finalizers, err)
	}
}
