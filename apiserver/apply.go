package apiserver

import (
	"errors"

	"github.com/planekit/planekit/apiserver/internal/wire"
	"github.com/planekit/planekit/internal/bodycost"
	"github.com/planekit/planekit/internal/jsonscan"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// apply is server-side apply: the object becomes what the patch says of it and
// is created where there is none.
func (s *Server) apply(q *request, o *metav1.PatchOptions, data []byte) error {
	tracks := q.info.Subresource
	view, isView := as[View](q.sub)
	if isView {
		if view.Replicas == "" {
			return wire.UnsupportedMedia("application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json")
		}
		tracks = viewOf(q.sub)
	}
	tracker, err := q.applier(tracks)
	if err != nil {
		return err
	}
	patch, err := q.applied(s, data, o.FieldValidation)
	if err != nil {
		return err
	}
	merge := func(live runtime.Object) (runtime.Object, error) {
		if live == nil && q.unnamed {
			return nil, q.nameless()
		}
		obj, err := tracker.Apply(live, patch.DeepCopy(), o.FieldManager, o.Force != nil && *o.Force)
		var status apierrors.APIStatus
		if err != nil && !errors.As(err, &status) {
			err = badRequest("%v", err)
		}
		return obj, err
	}
	e := edit{apply: merge, dryRun: len(o.DryRun) > 0, applies: true, creates: true}
	if isView {
		s.changesView(q, view, &e, merge)
	}
	return s.editOrCreate(q, e)
}

// appliedJSON returns the patch as JSON.
func (q *request) appliedJSON(data []byte, validation string) ([]byte, error) {
	ctx := q.r.Context()
	text := data
	// JSON is YAML, and faster to read. Where a name comes twice, YAML's error is wanted.
	if twice, err := jsonscan.Duplicates(ctx, data, wire.MaxDepth); err != nil || len(twice) > 0 {
		if err := wire.CostError(err); err != nil {
			return nil, err
		}
		again, err := error(nil), error(nil)
		if text, again, err = wire.YAMLToJSON(ctx, data, validation != metav1.FieldValidationIgnore); err != nil {
			return nil, badRequest("error decoding YAML: %v", err)
		}
		if again != nil && validation == metav1.FieldValidationStrict {
			return nil, badRequest("error decoding YAML: %v", again)
		}
		if again != nil {
			q.warnUnknown([]error{again})
		}
	}
	_, err := bodycost.Dynamic(ctx, text, wire.AppliedLimits(text))
	return text, wire.CostError(err)
}

// applied reads the patch, YAML or JSON. What it says of initializers is not in the result.
func (q *request) applied(s *Server, data []byte, validation string) (*unstructured.Unstructured, error) {
	text, err := q.appliedJSON(data, validation)
	if err != nil {
		return nil, err
	}
	if err := s.codec.Affordable(q.r.Context(), text, wire.JSON, q.kind.New()); err != nil {
		return nil, err
	}
	patch := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(text, &patch.Object); err != nil || patch.Object == nil {
		return nil, badRequest("error decoding YAML: it must be an object")
	}
	// Metadata that is no object would be lost on the way.
	if m, ok := patch.Object["metadata"]; ok {
		if _, ok := m.(map[string]any); !ok {
			return nil, badRequest("error decoding YAML: metadata must be an object")
		}
	}
	if patch.GetKind() == "" || patch.GetAPIVersion() == "" {
		return nil, badRequest("Object 'Kind' or 'apiVersion' is missing in the applied configuration")
	}
	if q.unnamed = patch.GetName() == ""; q.unnamed {
		patch.SetName(q.info.Name)
	}
	if err := q.sameName(patch); err != nil {
		return nil, err
	}
	if err := s.initializing.read(q, text, wire.JSON); err != nil {
		return nil, err
	}
	if q.hiding.said.Said {
		unstructured.RemoveNestedField(patch.Object, "metadata", "initializers")
	}
	return patch, nil
}
