package authz

import (
	"context"
	"errors"
	"strings"
)

// Chain asks authorizers in order; the first Allow or Deny decides. Otherwise the answer is
// NoOpinion, which grants nothing, with all reasons on separate lines and all errors joined. An
// error does not stop a later authorizer from allowing the request. A Chain is an [Authorizer]; it
// must not be changed while it is in use.
type Chain []Authorizer

// Authorize asks the authorizers of c in order.
func (c Chain) Authorize(ctx context.Context, a Attributes) (Decision, string, error) {
	var few [4]string // reasons; avoids an allocation for a typical chain
	reasons := few[:0]
	var broken []error
	for _, authorizer := range c {
		decision, reason, err := authorizer.Authorize(ctx, a)
		if decision == Allow && err == nil {
			return Allow, reason, nil
		}
		if decision == Deny {
			return Deny, reason, err
		}
		if reason != "" {
			reasons = append(reasons, reason)
		}
		if err != nil {
			broken = append(broken, err)
		}
	}
	return NoOpinion, strings.Join(reasons, "\n"), errors.Join(broken...)
}
