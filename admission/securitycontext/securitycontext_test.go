package securitycontext_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/securitycontext"
	corev1 "k8s.io/api/core/v1"
)

func create(spec corev1.PodSpec) *admission.Request {
	return &admission.Request{Operation: admission.Create, Namespace: "shop", Name: "web", Object: &corev1.Pod{Spec: spec},
		Resource: admission.GroupVersionResource{Version: "v1", Resource: "pods"}}
}

func Example() {
	chain := admission.Chain{Validators: []admission.Validator{securitycontext.Plugin{}}}
	root := int64(0)
	fmt.Println(chain.Validate(context.Background(), create(corev1.PodSpec{})))
	fmt.Println(chain.Validate(context.Background(), create(corev1.PodSpec{
		SecurityContext: &corev1.PodSecurityContext{RunAsUser: &root},
	})))
	// Output:
	// <nil>
	// pods "web" is forbidden: pod.Spec.SecurityContext.RunAsUser is forbidden
}

func TestDenies(t *testing.T) {
	one, yes := int64(1), true
	labels := &corev1.SELinuxOptions{Level: "s0"}
	type pod = corev1.PodSecurityContext
	type container = corev1.SecurityContext
	for _, test := range []struct {
		pod       *pod
		container *container
		want      string // of each kind of container
	}{
		{nil, nil, ""},
		{&pod{}, &container{}, ""},
		{&pod{RunAsNonRoot: &yes, RunAsGroup: &one}, &container{RunAsNonRoot: &yes, RunAsGroup: &one, Privileged: &yes}, ""},
		{&pod{SupplementalGroups: []int64{1}}, nil, "pod.Spec.SecurityContext.SupplementalGroups is forbidden"},
		{&pod{SupplementalGroups: []int64{}}, nil, "pod.Spec.SecurityContext.SupplementalGroups is forbidden"},
		{&pod{SELinuxOptions: labels}, nil, "pod.Spec.SecurityContext.SELinuxOptions is forbidden"},
		{&pod{RunAsUser: &one}, nil, "pod.Spec.SecurityContext.RunAsUser is forbidden"},
		{&pod{FSGroup: &one}, nil, "pod.Spec.SecurityContext.FSGroup is forbidden"},
		{nil, &container{SELinuxOptions: labels}, "SecurityContext.SELinuxOptions is forbidden"},
		{nil, &container{RunAsUser: &one}, "SecurityContext.RunAsUser is forbidden"},
	} {
		clean, c := []corev1.Container{{}}, []corev1.Container{{}, {SecurityContext: test.container}}
		ephemeral := []corev1.EphemeralContainer{{}, {EphemeralContainerCommon: corev1.EphemeralContainerCommon(c[1])}}
		for kind, spec := range map[string]corev1.PodSpec{
			"container":           {Containers: c},
			"init container":      {InitContainers: c, Containers: clean},
			"ephemeral container": {EphemeralContainers: ephemeral, Containers: clean},
		} {
			spec.SecurityContext = test.pod
			err := securitycontext.Plugin{}.Validate(t.Context(), create(spec))
			if got := reason(err); got != test.want {
				t.Errorf("%s, %+v, %+v: %q, want %q", kind, test.pod, test.container, got, test.want)
			}
		}
	}
}

func TestWhichRequests(t *testing.T) {
	one := int64(1)
	bad := corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{FSGroup: &one}}
	for name, test := range map[string]struct {
		change func(*admission.Request)
		denied bool
	}{
		"create":              {func(*admission.Request) {}, true},
		"update":              {func(r *admission.Request) { r.Operation = admission.Update }, true},
		"ephemeralcontainers": {func(r *admission.Request) { r.Operation, r.Subresource = admission.Update, "ephemeralcontainers" }, true},
		"status":              {func(r *admission.Request) { r.Operation, r.Subresource = admission.Update, "status" }, false},
		"delete":              {func(r *admission.Request) { r.Operation, r.OldObject, r.Object = admission.Delete, r.Object, nil }, false},
		"another resource":    {func(r *admission.Request) { r.Resource.Resource = "podtemplates" }, false},
	} {
		r := create(bad)
		test.change(r)
		if err := (securitycontext.Plugin{}).Validate(t.Context(), r); (err != nil) != test.denied {
			t.Errorf("%s: Validate(request) = %v, want an error: %t", name, err, test.denied)
		}
	}
}

// reason is why a request was forbidden; empty when it was not.
func reason(err error) string {
	var forbidden *admission.ForbiddenError
	if errors.As(err, &forbidden) {
		return forbidden.Err.Error()
	}
	return ""
}
