package apiserver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"unicode/utf8"

	"github.com/planekit/planekit/internal/bodycost"
	"github.com/planekit/planekit/internal/jsonpatch"
	"github.com/planekit/planekit/internal/jsonscan"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// maxPatchOperations bounds a JSON patch as kube-apiserver does.
const maxPatchOperations = 10_000

// patch changes the object, or what a subresource shows of it, by a patch.
func (s *Server) patch(q *request) error {
	var o metav1.PatchOptions
	if err := decodeQuery(q.r.URL.Query(), &o); err != nil {
		return err
	}
	q.options = &o
	media := types.PatchType(contentType(q.r))
	switch media {
	case types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType:
	case types.ApplyYAMLPatchType:
	default:
		return unsupportedMedia("application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml")
	}
	if err := invalidOptions("PatchOptions", metavalidation.ValidatePatchOptions(&o, media)); err != nil {
		return err
	}
	data, err := q.body()
	if err != nil {
		return err
	}
	if !utf8.Valid(data) {
		return badRequest("the body of the request is not valid UTF-8")
	}
	if media == types.ApplyYAMLPatchType {
		return s.apply(q, &o, data)
	}
	if err := q.checkTwice(data, o.FieldValidation); err != nil {
		return err
	}
	return s.change(q, o.FieldManager, len(o.DryRun) > 0, func(view runtime.Object) (runtime.Object, error) {
		return s.patched(q, media, data, o.FieldValidation, view)
	})
}

// checkTwice looks for fields that a patch has twice: what it makes of an object
// does not tell. Nor may the patch be nested too deeply.
func (q *request) checkTwice(patch []byte, fieldValidation string) error {
	ctx := q.r.Context()
	if fieldValidation == metav1.FieldValidationIgnore {
		return patchError(jsonscan.Check(ctx, patch, maxDepth))
	}
	twice, err := jsonscan.Duplicates(ctx, patch, maxDepth)
	if err != nil {
		return patchError(err)
	}
	errs := make([]error, len(twice))
	for i, path := range twice {
		errs[i] = fmt.Errorf("duplicate field %q", path)
	}
	if len(errs) > 0 && fieldValidation == metav1.FieldValidationStrict {
		return strictError(q.bodyKind(), errs)
	}
	q.warnUnknown(errs)
	return nil
}

// patchError is the client's error for a patch that cannot be read.
func patchError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return badRequest("error decoding patch: %v", err)
}

// applyPatch returns the JSON that patch makes of original. schema is an object
// of the Go type whose tags say how lists are merged.
func applyPatch(ctx context.Context, c *codec, media types.PatchType, original, patch []byte, schema runtime.Object) ([]byte, error) {
	switch media {
	case types.JSONPatchType:
		return applyJSONPatch(ctx, original, patch)
	case types.MergePatchType:
		if at := jsonscan.SkipSpace(patch, 0); at == len(patch) || patch[at] != '{' {
			return nil, badRequest("error decoding patch: it must be a JSON object")
		}
		result, err := jsonpatch.Merge(ctx, original, patch, maxDepth)
		return result, patchError(err)
	}
	if err := c.mergeable(ctx, original, patch, schema); err != nil {
		return nil, err
	}
	result, err := strategicpatch.StrategicMergePatch(original, patch, schema)
	switch {
	case err == nil:
		return result, nil
	case errors.Is(err, mergepatch.ErrBadJSONDoc), mergepatch.IsPreconditionFailed(err):
		return nil, badRequest("error decoding patch: %v", err)
	}
	return nil, unprocessable(err)
}

// maxStrategicPairs is how many items of lists a strategic merge patch may compare, each of
// those which it merges with each that may be there: the library looks for every one from
// the front.
const maxStrategicPairs = 1 << 20

// mergeable checks that patch can be merged into original at a bounded cost.
func (c *codec) mergeable(ctx context.Context, original, patch []byte, schema runtime.Object) error {
	if len(patch) < 4<<10 && len(original) < 64<<10 {
		return nil // there is no room for more
	}
	limits := costLimits(patch)
	limits.Bytes = math.MaxInt
	if _, err := bodycost.Dynamic(ctx, patch, limits); err != nil {
		return patchError(err)
	}
	limits.Values = 0
	of := reflect.TypeOf(schema)
	has, err := c.costs.JSON(ctx, original, of, limits)
	if err != nil {
		return err
	}
	wants, err := c.costs.JSON(ctx, patch, of, limits)
	if err != nil {
		return patchError(err)
	}
	if wants.Merged*(has.Merged+wants.Merged) > maxStrategicPairs {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"the strategic merge patch merges %d items of lists into %d, which takes too long: apply, or use a merge patch", wants.Merged, has.Merged))
	}
	return nil
}

func applyJSONPatch(ctx context.Context, original, patch []byte) ([]byte, error) {
	operations, count, err := jsonpatch.Decode(ctx, patch, maxPatchOperations, maxDepth)
	switch {
	case err != nil:
		return nil, patchError(err)
	case count > maxPatchOperations:
		return nil, apierrors.NewRequestEntityTooLargeError(
			fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", maxPatchOperations, count))
	}
	result, err := operations.Apply(ctx, original, jsonpatch.Limits{Depth: maxDepth, Copied: maxBody})
	switch {
	case errors.Is(err, jsonpatch.ErrTooMuchCopied), len(result) > max(maxBody, len(original)):
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the JSON patch copies too much: limit is %d", maxBody))
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return nil, err
	case err != nil:
		return nil, unprocessable(err)
	}
	return result, nil
}

// unprocessable is a patch that is well-formed and does not fit the object.
func unprocessable(err error) error {
	return statusError(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid,
		"the server rejected our request due to an error in our request: %v", err)
}
