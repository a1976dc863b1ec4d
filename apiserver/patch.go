package apiserver

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/planekit/planekit/apiserver/internal/ownership"
	"github.com/planekit/planekit/apiserver/internal/patching"
	"github.com/planekit/planekit/apiserver/internal/requestline"
	"github.com/planekit/planekit/apiserver/internal/wire"
	"github.com/planekit/planekit/internal/jsonscan"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// patch changes the object, or what a subresource shows of it, by a patch.
func (s *Server) patch(q *request) error {
	var o metav1.PatchOptions
	if err := requestline.Options(q.r.URL.Query(), &o); err != nil {
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
	if err := requestline.Invalid("PatchOptions", metavalidation.ValidatePatchOptions(&o, media)); err != nil {
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
		return patching.Error(jsonscan.Check(ctx, patch, wire.MaxDepth))
	}
	twice, err := jsonscan.Duplicates(ctx, patch, wire.MaxDepth)
	if err != nil {
		return patching.Error(err)
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

// patched returns what the patch makes of view.
func (s *Server) patched(q *request, media types.PatchType, patch []byte, fieldValidation string, view runtime.Object) (runtime.Object, error) {
	if !bytes.Contains(patch, []byte("managedFields")) {
		view = ownership.Without(view) // dear to write and to read again, and kept anyway
	}
	var p *patching.Part
	result, err := s.initializing.patch(q, media, patch, view, func(patch []byte, whole runtime.Object) ([]byte, error) {
		var ok bool
		if p, ok = patching.PartOf(media, patch, view); !ok {
			original, err := s.codec.Encode(wire.JSON, whole)
			if err != nil {
				return nil, err
			}
			p = &patching.Part{Original: original, Rest: q.newBody()}
		}
		return patching.Apply(q.r.Context(), s.codec, media, p.Original, patch, view)
	})
	if err != nil {
		return nil, err
	}
	if err := q.decodeFrom(s, result, wire.JSON, fieldValidation, p.Rest); err != nil {
		return nil, err
	}
	return p.Rest, q.sameObject(p.Rest)
}
