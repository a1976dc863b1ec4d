package webhook

import (
	"context"
	"errors"
	"fmt"

	"github.com/planekit/planekit/admission/internal/patched"
	"github.com/planekit/planekit/internal/budget"
	"github.com/planekit/planekit/internal/jsonpatch"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// patched returns the request's object with the patch of h, as another object of the same type; nil
// if the patch is empty. An invalid patch is an error of the request, whatever h's failurePolicy. A
// patch that takes longer than ctx is a failure of h.
func (h *hook) patched(ctx context.Context, q *question, patch []byte) (any, error) {
	operations, count, err := jsonpatch.Decode(ctx, patch, patched.MaxOperations, patched.MaxDepth)
	if err != nil {
		return nil, &failure{h.name, fmt.Errorf("received undecodable patch in webhook response: %w", err)}
	}
	if count == 0 {
		return nil, nil
	}
	if q.r.Object == nil {
		return nil, apierrors.NewInternalError(fmt.Errorf(
			"admission webhook %q attempted to modify the object, which is not supported for this operation", h.name))
	}
	if count > patched.MaxOperations {
		return nil, apierrors.NewInternalError(fmt.Errorf("the patch has %d operations, more than %d", count, patched.MaxOperations))
	}
	data, err := patched.Apply(ctx, operations, q.object)
	if err == nil {
		err = h.patches.Bound(ctx, data, q.r)
	}
	switch {
	case ctx.Err() != nil:
		return nil, &failure{h.name, fmt.Errorf("apply the patch in webhook response: %w", ctx.Err())}
	case err != nil:
		return nil, apierrors.NewInternalError(err)
	}
	object, err := patched.Decode(ctx, data, q.r)
	if errors.Is(err, budget.ErrExceeded) {
		return nil, err
	}
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("admission webhook %q: %w", h.name, err))
	}
	return object, nil
}
