package policy

import (
	"context"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/internal/rules"
)

// A form is a request in the type that policies match: its own, or an equivalent one.
type form struct {
	r *admission.Request
	// vars are the variables that all policies have; nil until they are needed.
	vars map[string]any
	// stale means that the object of the request has changed since it was converted for r.
	stale bool
}

// form returns the request in a type. It is converted once, and again after its object has changed.
func (q *request) form(ctx context.Context, as admission.Equivalent) (*form, error) {
	for _, f := range q.forms {
		if rules.Own(f.r) == as {
			return f, q.refresh(ctx, f)
		}
	}
	f := &form{r: q.r}
	if as != rules.Own(q.r) {
		var err error
		if f.r, err = rules.Convert(ctx, q.r, as); err != nil {
			return nil, err
		}
	}
	q.forms = append(q.forms, f)
	return f, nil
}

func (q *request) refresh(ctx context.Context, f *form) error {
	if !f.stale {
		return nil
	}
	if f.r != q.r {
		if err := rules.ConvertObject(ctx, q.r, f.r); err != nil {
			return err
		}
	}
	f.vars, f.stale = nil, false
	return nil
}

// replace makes object, of the type of f, the object of the request.
func (q *request) replace(ctx context.Context, f *form, object any) error {
	f.r.Object = object
	for _, other := range q.forms {
		other.stale = other != f
	}
	if f.r == q.r {
		return nil
	}
	return rules.Revert(ctx, q.r, f.r)
}
