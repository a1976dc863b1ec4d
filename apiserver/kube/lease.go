package kube

import (
	"strings"

	"github.com/planekit/planekit/apiserver"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func leases() apiserver.Resource {
	return apiserver.Resource{
		Group:      coordinationv1.GroupName,
		Version:    "v1",
		Kind:       "Lease",
		Plural:     "leases",
		Namespaced: true,
		New:        func() runtime.Object { return &coordinationv1.Lease{} },
		NewList:    func() runtime.Object { return &coordinationv1.LeaseList{} },
		Strategy: strategy[*coordinationv1.Lease]{
			validate:       validateLease,
			validateUpdate: func(l, _ *coordinationv1.Lease) field.ErrorList { return validateLease(l) },
		}.erase(),
		Columns: []apiserver.Column{
			text("Holder", coordinationv1.LeaseSpec{}.SwaggerDoc()["holderIdentity"],
				func(l *coordinationv1.Lease) string { return deref(l.Spec.HolderIdentity) }),
			age[*coordinationv1.Lease](),
		},
	}
}

func validateLease(l *coordinationv1.Lease) field.ErrorList {
	var ps problems
	p, spec := field.NewPath("spec"), &l.Spec
	if d := spec.LeaseDurationSeconds; d != nil {
		ps.must(*d > 0, field.Invalid(p.Child("leaseDurationSeconds"), d, "must be greater than 0"))
	}
	if n := spec.LeaseTransitions; n != nil {
		ps.must(*n >= 0, field.Invalid(p.Child("leaseTransitions"), n, "must be greater than or equal to 0"))
	}
	if s := spec.Strategy; s != nil {
		// Upstream repeats the last part of the path.
		at := p.Child("strategy", "strategy")
		if strings.Contains(string(*s), "/") {
			ps.each(at, *s, validation.IsQualifiedName(string(*s)))
		} else {
			oneOf(&ps, at, *s, coordinationv1.OldestEmulationVersion)
		}
	}
	ps.must(deref(spec.PreferredHolder) == "" || deref(spec.Strategy) != "",
		field.Forbidden(p.Child("preferredHolder"), "may only be specified if `strategy` is defined"))
	return ps.list
}
