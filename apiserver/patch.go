package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"unicode/utf8"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"
)

// Bounds of a JSON patch. The number of operations is kube-apiserver's. Copy
// operations can double a document each, so its size is looked at after every
// one, within a budget of bytes looked at in all.
const (
	maxPatchOperations = 10_000
	patchCopyBudget    = 64 << 20
)

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
// does not tell.
func (q *request) checkTwice(patch []byte, fieldValidation string) error {
	if fieldValidation == metav1.FieldValidationIgnore {
		return nil
	}
	var v any
	twice, err := kjson.UnmarshalStrict(patch, &v)
	switch {
	case err != nil:
		return badRequest("error decoding patch: %v", err)
	case len(twice) > 0 && fieldValidation == metav1.FieldValidationStrict:
		return strictError(q.bodyKind(), twice)
	}
	warnUnknown(q.w.Header(), twice)
	return nil
}

// applyPatch returns the JSON that patch makes of original. schema is an object
// of the Go type whose tags say how lists are merged.
func applyPatch(media types.PatchType, original, patch []byte, schema runtime.Object) ([]byte, error) {
	switch media {
	case types.JSONPatchType:
		return applyJSONPatch(original, patch)
	case types.MergePatchType:
		var object map[string]json.RawMessage
		if err := json.Unmarshal(patch, &object); err != nil || object == nil {
			return nil, badRequest("error decoding patch: it must be a JSON object")
		}
		result, err := jsonpatch.MergePatch(original, patch)
		if err != nil {
			return nil, badRequest("error applying patch: %v", err)
		}
		return result, nil
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

func applyJSONPatch(original, patch []byte) ([]byte, error) {
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, badRequest("error decoding patch: %v", err)
	}
	if len(operations) > maxPatchOperations {
		return nil, apierrors.NewRequestEntityTooLargeError(
			fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", maxPatchOperations, len(operations)))
	}
	document, budget := original, patchCopyBudget
	for len(operations) > 0 {
		n := 1
		for n < len(operations) && operations[n-1].Kind() != "copy" {
			n++
		}
		if document, err = applyOperations(operations[:n], document); err != nil {
			return nil, unprocessable(err)
		}
		operations = operations[n:]
		if budget -= len(document); len(document) > maxBody || (budget < 0 && len(operations) > 0) {
			return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the JSON patch copies too much: limit is %d", maxBody))
		}
	}
	return document, nil
}

// applyOperations contains the library's panics, such as that on an operation
// which replaces the whole document by nothing.
func applyOperations(operations jsonpatch.Patch, document []byte) (_ []byte, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("the patch cannot be applied")
		}
	}()
	return operations.Apply(document)
}

// unprocessable is a patch that is well-formed and does not fit the object.
func unprocessable(err error) error {
	return statusError(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid,
		"the server rejected our request due to an error in our request: %v", err)
}
