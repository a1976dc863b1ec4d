// Package patching applies the patches of clients to objects: JSON patches, merge patches and strategic
// merge patches, each at a bounded cost.
package patching

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"reflect"

	"github.com/planekit/planekit/apiserver/internal/wire"
	"github.com/planekit/planekit/internal/bodycost"
	"github.com/planekit/planekit/internal/jsonpatch"
	"github.com/planekit/planekit/internal/jsonscan"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// maxPatchOperations bounds a JSON patch as kube-apiserver does.
const maxPatchOperations = 10_000

// Error returns err as the client's error for a patch that cannot be read.
func Error(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return wire.BadRequest("error decoding patch: %v", err)
}

// Apply returns the JSON that patch makes of original. schema is an object
// of the Go type whose tags say how lists are merged.
func Apply(ctx context.Context, c *wire.Codec, media types.PatchType, original, patch []byte, schema runtime.Object) ([]byte, error) {
	switch media {
	case types.JSONPatchType:
		return applyJSONPatch(ctx, original, patch)
	case types.MergePatchType:
		if at := jsonscan.SkipSpace(patch, 0); at == len(patch) || patch[at] != '{' {
			return nil, wire.BadRequest("error decoding patch: it must be a JSON object")
		}
		result, err := jsonpatch.Merge(ctx, original, patch, wire.MaxDepth)
		return result, Error(err)
	}
	if err := mergeable(ctx, c, original, patch, schema); err != nil {
		return nil, err
	}
	result, err := mergeStrategically(original, patch, schema)
	switch {
	case err == nil:
		return result, nil
	case errors.Is(err, mergepatch.ErrBadJSONDoc), mergepatch.IsPreconditionFailed(err):
		return nil, wire.BadRequest("error decoding patch: %v", err)
	}
	return nil, unprocessable(err)
}

// mergeStrategically merges patch into original. The kind and its version stay, whatever the patch says of them, as in Kubernetes.
func mergeStrategically(original, patch []byte, schema runtime.Object) ([]byte, error) {
	var was, change map[string]any
	if json.Unmarshal(original, &was) != nil || json.Unmarshal(patch, &change) != nil {
		return nil, mergepatch.ErrBadJSONDoc
	}
	delete(change, "kind")
	delete(change, "apiVersion")
	result, err := strategicpatch.StrategicMergeMapPatch(was, change, schema)
	if err != nil {
		return nil, err
	}
	return json.Marshal(result)
}

// maxStrategicPairs bounds the pairs of list items that a strategic merge patch may compare:
// the library searches the whole list for each item that it merges.
const maxStrategicPairs = 1 << 20

// mergeable checks that patch can be merged into original at a bounded cost.
func mergeable(ctx context.Context, c *wire.Codec, original, patch []byte, schema runtime.Object) error {
	if len(patch) < 4<<10 && len(original) < 64<<10 {
		return nil // there is no room for more
	}
	limits := wire.CostLimits(patch)
	limits.Bytes = math.MaxInt
	if _, err := bodycost.Dynamic(ctx, patch, limits); err != nil {
		return Error(err)
	}
	limits.Values = 0
	of := reflect.TypeOf(schema)
	has, err := c.Costs.JSON(ctx, original, of, limits)
	if err != nil {
		return err
	}
	wants, err := c.Costs.JSON(ctx, patch, of, limits)
	if err != nil {
		return Error(err)
	}
	if wants.Merged*(has.Merged+wants.Merged) > maxStrategicPairs {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"the strategic merge patch merges %d items of lists into %d, which takes too long: apply, or use a merge patch", wants.Merged, has.Merged))
	}
	return nil
}

func applyJSONPatch(ctx context.Context, original, patch []byte) ([]byte, error) {
	operations, count, err := jsonpatch.Decode(ctx, patch, maxPatchOperations, wire.MaxDepth)
	switch {
	case err != nil:
		return nil, Error(err)
	case count > maxPatchOperations:
		return nil, apierrors.NewRequestEntityTooLargeError(
			fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", maxPatchOperations, count))
	}
	result, err := operations.Apply(ctx, original, jsonpatch.Limits{Depth: wire.MaxDepth, Copied: wire.MaxBody})
	switch {
	case errors.Is(err, jsonpatch.ErrTooMuchCopied), len(result) > max(wire.MaxBody, len(original)):
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the JSON patch copies too much: limit is %d", wire.MaxBody))
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return nil, err
	case err != nil:
		return nil, unprocessable(err)
	}
	return result, nil
}

// unprocessable is a patch that is well-formed and does not fit the object.
func unprocessable(err error) error {
	return wire.StatusError(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid,
		"the server rejected our request due to an error in our request: %v", err)
}
