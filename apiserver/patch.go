package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/planekit/planekit/apiserver/internal/ownership"
	"github.com/planekit/planekit/apiserver/internal/wire"
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
	media := types.PatchType(wire.ContentType(q.r))
	switch media {
	case types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType:
	case types.ApplyYAMLPatchType:
	default:
		return wire.UnsupportedMedia("application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml")
	}
	if err := invalidOptions("PatchOptions", metavalidation.ValidatePatchOptions(&o, media)); err != nil {
		return err
	}
	data := q.body()
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
		return patchError(jsonscan.Check(ctx, patch, wire.MaxDepth))
	}
	twice, err := jsonscan.Duplicates(ctx, patch, wire.MaxDepth)
	if err != nil {
		return patchError(err)
	}
	errs := make([]error, len(twice))
	for i, path := range twice {
		errs[i] = fmt.Errorf("duplicate field %q", path)
	}
	if len(errs) > 0 && fieldValidation == metav1.FieldValidationStrict {
		return wire.StrictError(q.bodyKind(), errs)
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
func applyPatch(ctx context.Context, c *wire.Codec, media types.PatchType, original, patch []byte, schema runtime.Object) ([]byte, error) {
	switch media {
	case types.JSONPatchType:
		return applyJSONPatch(ctx, original, patch)
	case types.MergePatchType:
		if at := jsonscan.SkipSpace(patch, 0); at == len(patch) || patch[at] != '{' {
			return nil, badRequest("error decoding patch: it must be a JSON object")
		}
		result, err := jsonpatch.Merge(ctx, original, patch, wire.MaxDepth)
		return result, patchError(err)
	}
	if err := mergeable(ctx, c, original, patch, schema); err != nil {
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
		return patchError(err)
	}
	limits.Values = 0
	of := reflect.TypeOf(schema)
	has, err := c.Costs.JSON(ctx, original, of, limits)
	if err != nil {
		return err
	}
	wants, err := c.Costs.JSON(ctx, patch, of, limits)
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
	operations, count, err := jsonpatch.Decode(ctx, patch, maxPatchOperations, wire.MaxDepth)
	switch {
	case err != nil:
		return nil, patchError(err)
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
	return statusError(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid,
		"the server rejected our request due to an error in our request: %v", err)
}

// part is the part of an object that a patch can change. Most patches change the metadata
// or the status alone. The rest need not be written as JSON and read again then.
type part struct {
	// original is the part as JSON, as a whole object would be.
	original []byte
	// rest is a copy of the object without it.
	rest runtime.Object
}

// topNames is the visitor that collects the names of an object's members.
type topNames struct {
	level int
	names map[string]bool
	many  bool // more than a patch that is worth taking apart has
}

func (t *topNames) Begin(open byte, _ int) error {
	if t.level++; t.level == 1 && open != '{' {
		t.many = true
	}
	return nil
}

func (t *topNames) End(int)           { t.level-- }
func (t *topNames) Scalar(byte) error { return nil }

func (t *topNames) Name(quoted []byte) error {
	if t.level > 1 || t.many {
		return nil
	}
	if t.names == nil {
		t.names = map[string]bool{}
	}
	t.names[jsonscan.Unquote(quoted)] = true
	t.many = len(t.names) > 64
	return nil
}

// partOf returns the part of view that patch is about. It reports false where it
// must be taken for the whole: a JSON patch can copy from anywhere, and
// directives at the top are about all fields.
func partOf(media types.PatchType, patch []byte, view runtime.Object) (*part, bool) {
	if media != types.MergePatchType && media != types.StrategicMergePatchType {
		return nil, false
	}
	about := topNames{}
	if jsonscan.Scan(context.Background(), patch, wire.MaxDepth, &about) != nil || about.many {
		return nil, false
	}
	rest := view.DeepCopyObject()
	fields := reflect.ValueOf(rest)
	if fields.Kind() != reflect.Pointer || fields.Elem().Kind() != reflect.Struct {
		return nil, false
	}
	fields = fields.Elem()
	kind := view.GetObjectKind().GroupVersionKind()
	original := append([]byte(nil), jsonHead(kind.GroupVersion().String(), kind.Kind)...)
	for i := range fields.NumField() {
		name, options, _ := strings.Cut(fields.Type().Field(i).Tag.Get("json"), ",")
		touched := about.names[name]
		switch {
		case name == "" && strings.Contains(options, "inline") && fields.Type().Field(i).Type == reflect.TypeFor[metav1.TypeMeta]():
			continue
		case name == "" || name == "-":
			return nil, false // a tag is not enough to find its fields
		case !touched:
			continue
		}
		value := fields.Field(i)
		if !value.IsZero() {
			data, err := json.Marshal(value.Interface())
			if err != nil {
				return nil, false
			}
			original = append(append(append(original, '"'), name...), `":`...)
			original = append(append(original, data...), ',')
		}
		value.SetZero()
	}
	for name := range about.names {
		if strings.HasPrefix(name, "$") {
			return nil, false
		}
	}
	original[len(original)-1] = '}' // in place of a comma
	return &part{original, rest}, true
}

// patched returns what the patch makes of view.
func (s *Server) patched(q *request, media types.PatchType, patch []byte, fieldValidation string, view runtime.Object) (runtime.Object, error) {
	if !bytes.Contains(patch, []byte("managedFields")) {
		view = ownership.Without(view) // dear to write and to read again, and kept anyway
	}
	patch, whole, err := q.beforePatch(s, media, patch, view)
	if err != nil {
		return nil, err
	}
	p, ok := partOf(media, patch, view)
	if !ok {
		original, err := s.codec.Encode(wire.JSON, whole)
		if err != nil {
			return nil, err
		}
		p = &part{original, q.newBody()}
	}
	result, err := applyPatch(q.r.Context(), s.codec, media, p.original, patch, view)
	if err != nil {
		return nil, err
	}
	if err := q.afterPatch(s, media, result); err != nil {
		return nil, err
	}
	if err := q.decodeFrom(s, result, wire.JSON, fieldValidation, p.rest); err != nil {
		return nil, err
	}
	return p.rest, q.sameObject(p.rest)
}
