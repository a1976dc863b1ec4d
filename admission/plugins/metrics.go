package plugins

import (
	"context"
	"time"

	"github.com/planekit/planekit/admission"
)

// Phase is the phase of a plugin, with the names of Kubernetes' metrics.
type Phase string

// The phases.
const (
	Admit    Phase = "admit"
	Validate Phase = "validate"
)

// Metrics holds hooks for metrics. The zero value has no cost.
type Metrics struct {
	// Done is called after each plugin with its name, the phase, the operation, the duration and
	// the error: the data of Kubernetes' apiserver_admission_controller_admission_duration_seconds.
	// It must be safe for concurrent use.
	Done func(name string, phase Phase, op admission.Operation, took time.Duration, err error)
}

func (m Metrics) mutator(name string, next admission.Mutator) admission.Mutator {
	if m.Done == nil {
		return next
	}
	return admission.MutatorFunc(m.timed(name, Admit, next.Mutate))
}

func (m Metrics) validator(name string, next admission.Validator) admission.Validator {
	if m.Done == nil {
		return next
	}
	return admission.ValidatorFunc(m.timed(name, Validate, next.Validate))
}

func (m Metrics) timed(name string, phase Phase, next func(context.Context, *admission.Request) error) func(context.Context, *admission.Request) error {
	return func(ctx context.Context, r *admission.Request) error {
		start, op := time.Now(), r.Operation
		err := next(ctx, r)
		m.Done(name, phase, op, time.Since(start), err)
		return err
	}
}
