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
			create:         func(l *coordinationv1.Lease) { dropElection(&l.Spec, &coordinationv1.LeaseSpec{}) },
			update:         func(l, old *coordinationv1.Lease) { dropElection(&l.Spec, &old.Spec) },
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

// dropElection drops the fields of coordinated leader election, which nobody here
// holds, unless they are there already.
func dropElection(spec, old *coordinationv1.LeaseSpec) {
	if old.Strategy == nil {
		spec.Strategy = nil
	}
	if old.PreferredHolder == nil {
		spec.PreferredHolder = nil
	}
}

func validateLease(l *coordinationv1.Lease) field.ErrorList {
	var ps problems
	p, spec := field.NewPath("spec"), &l.Spec
	if d := spec.LeaseDurationSeconds; d != nil {
		ps.valid(*d > 0, p.Child("leaseDurationSeconds"), d, "must be greater than 0")
	}
	if n := spec.LeaseTransitions; n != nil {
		ps.valid(*n >= 0, p.Child("leaseTransitions"), n, "must be greater than or equal to 0")
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
	ps.allowed(deref(spec.PreferredHolder) == "" || deref(spec.Strategy) != "",
		p.Child("preferredHolder"), "may only be specified if `strategy` is defined")
	return ps.list
}
