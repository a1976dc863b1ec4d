package coordination

import (
	"strings"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/kinds"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Leases returns the resource of the kind Lease.
func Leases() apiserver.Resource {
	return apiserver.For(kinds.Leases, apiserver.Resource{
		Conditional: true, CreateOnUpdate: true,
		Strategy: define.Strategy[*coordinationv1.Lease]{
			Create:         func(l *coordinationv1.Lease) { dropElection(&l.Spec, &coordinationv1.LeaseSpec{}) },
			Update:         func(l, old *coordinationv1.Lease) { dropElection(&l.Spec, &old.Spec) },
			Validate:       validateLease,
			ValidateUpdate: func(l, _ *coordinationv1.Lease) field.ErrorList { return validateLease(l) },
		}.Erase(),
		Columns: []apiserver.Column{
			column.Text("Holder", coordinationv1.LeaseSpec{}.SwaggerDoc()["holderIdentity"],
				func(l *coordinationv1.Lease) string { return optional.Deref(l.Spec.HolderIdentity) }),
			column.Age[*coordinationv1.Lease](),
		},
	})
}

// dropElection drops the fields of coordinated leader election, which this server does not run,
// unless the old object has them.
func dropElection(spec, old *coordinationv1.LeaseSpec) {
	if old.Strategy == nil {
		spec.Strategy = nil
	}
	if old.PreferredHolder == nil {
		spec.PreferredHolder = nil
	}
}

func validateLease(l *coordinationv1.Lease) field.ErrorList {
	var ps check.Problems
	p, spec := field.NewPath("spec"), &l.Spec
	if d := spec.LeaseDurationSeconds; d != nil {
		ps.Valid(*d > 0, p.Child("leaseDurationSeconds"), d, "must be greater than 0")
	}
	if n := spec.LeaseTransitions; n != nil {
		ps.Valid(*n >= 0, p.Child("leaseTransitions"), n, "must be greater than or equal to 0")
	}
	if s := spec.Strategy; s != nil {
		// Upstream repeats the last part of the path.
		at := p.Child("strategy", "strategy")
		if strings.Contains(string(*s), "/") {
			ps.Each(at, *s, validation.IsQualifiedName(string(*s)))
		} else {
			check.OneOf(&ps, at, *s, coordinationv1.OldestEmulationVersion)
		}
	}
	ps.Allowed(optional.Deref(spec.PreferredHolder) == "" || optional.Deref(spec.Strategy) != "",
		p.Child("preferredHolder"), "may only be specified if `strategy` is defined")
	return ps.List
}
