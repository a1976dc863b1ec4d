package rules

import (
	"context"

	"github.com/planekit/planekit/admission"
)

// Own returns the type of r itself.
func Own(r *admission.Request) admission.Equivalent {
	return admission.Equivalent{Resource: r.Resource, Kind: r.Kind}
}

// Equivalent returns the equivalent of the type of r that a rule covers, and whether there is one. count is the number
// of rules, of which the first decides.
func Equivalent(r *admission.Request, count int, covers func(rule int, as admission.GroupVersionResource) bool) (admission.Equivalent, bool) {
	if r.Equivalents == nil {
		return admission.Equivalent{}, false
	}
	all := r.Equivalents.All()
	for rule := range count {
		for _, e := range all {
			if covers(rule, e.Resource) {
				return e, true
			}
		}
	}
	return admission.Equivalent{}, false
}

// Convert returns r as a request of an equivalent type. r stays as it is.
func Convert(ctx context.Context, r *admission.Request, to admission.Equivalent) (*admission.Request, error) {
	out := *r
	out.Resource, out.Kind = to.Resource, to.Kind
	var err error
	if r.OldObject != nil {
		if out.OldObject, err = r.Equivalents.Convert(ctx, r.OldObject, Own(r), to); err != nil {
			return nil, err
		}
	}
	return &out, ConvertObject(ctx, r, &out)
}

// ConvertObject makes the object of to, which Convert has returned for r, the object of r as it is now.
func ConvertObject(ctx context.Context, r, to *admission.Request) (err error) {
	if r.Object != nil {
		to.Object, err = r.Equivalents.Convert(ctx, r.Object, Own(r), Own(to))
	}
	return err
}

// Revert makes the object of r that of from, which Convert has returned for r.
func Revert(ctx context.Context, r, from *admission.Request) error {
	object, err := r.Equivalents.Convert(ctx, from.Object, Own(from), Own(r))
	if err == nil {
		r.Object = object
	}
	return err
}
