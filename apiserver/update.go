package apiserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver/internal/ownership"
	"github.com/planekit/planekit/apiserver/internal/patching"
	"github.com/planekit/planekit/apiserver/internal/requestline"
	"github.com/planekit/planekit/apiserver/internal/wire"
	"github.com/planekit/planekit/internal/invalid"
	"github.com/planekit/planekit/internal/jsonscan"
	"github.com/planekit/planekit/storage"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// update replaces the object, or what a subresource shows of it.
func (s *Server) update(q *request) error {
	var o metav1.UpdateOptions
	if err := requestline.Options(q.r.URL.Query(), &o); err != nil {
		return err
	}
	q.options = &o
	if err := requestline.Invalid("UpdateOptions", metavalidation.ValidateUpdateOptions(&o)); err != nil {
		return err
	}
	body := q.newBody()
	if err := q.decode(s, o.FieldValidation, body); err != nil {
		return err
	}
	if err := q.sameName(accessor(body)); err != nil {
		return err
	}
	q.uniqueOwners(accessor(body), "")
	put := func(old runtime.Object) (runtime.Object, error) {
		if old != nil {
			if uid, was := accessor(body).GetUID(), accessor(old).GetUID(); uid != "" && uid != was {
				return nil, q.failed("UID", string(uid), string(was))
			}
		}
		return body.DeepCopyObject(), nil
	}
	if q.sub == nil && q.kind.CreateOnUpdate {
		return s.editOrCreate(q, edit{apply: put, creates: true, tracks: true, manager: o.FieldManager, dryRun: len(o.DryRun) > 0})
	}
	return s.change(q, o.FieldManager, len(o.DryRun) > 0, put)
}

// editOrCreate edits the object, or creates it if there is none, and answers with it or its view.
func (s *Server) editOrCreate(q *request, e edit) error {
	for {
		obj, err := s.edit(q, e)
		if view, ok := as[View](q.sub); ok && err == nil {
			obj, err = q.show(view.From, obj)
		}
		if !errors.Is(err, errAbsent) {
			if err != nil {
				return err
			}
			return s.responder.respond(q, http.StatusOK, obj)
		}
		obj, err = s.createAbsent(q, e)
		if errors.Is(err, storage.ErrExists) {
			continue // another request was faster: there is an object to edit now
		}
		if err != nil {
			return storageError(err, q.kind.gr, q.info.Name)
		}
		if obj, err = s.initializing.finish(q, obj, e.dryRun); err != nil {
			return err
		}
		return s.responder.respond(q, http.StatusCreated, obj)
	}
}

// createAbsent creates the object that e makes of nothing, which takes the right to create.
func (s *Server) createAbsent(q *request, e edit) (runtime.Object, error) {
	if q.sub != nil {
		return nil, storage.ErrNotFound
	}
	creates := q.info
	creates.Verb = "create"
	if err := s.guard.authorizeMore(q.r, creates, q.user); err != nil {
		return nil, err
	}
	obj, err := e.apply(nil)
	if err != nil {
		return nil, err
	}
	if uid := accessor(obj).GetUID(); uid != "" && e.applies {
		return nil, apierrors.NewConflict(q.kind.gr, q.info.Name, fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
	} else if uid != "" {
		return nil, q.failed("UID", string(uid), "")
	}
	accessor(obj).SetResourceVersion("")
	if q.kind.Strategy.Default != nil {
		q.kind.Strategy.Default(obj)
	}
	if err := q.beginLife(obj); err != nil {
		return nil, err
	}
	if e.tracks {
		s.ownNew(q, obj, e.manager)
	}
	in, err := s.mutateNew(q, obj, e.dryRun)
	if err != nil {
		return nil, err
	}
	return s.tryNew(q, in)
}

// change edits the object to what next makes of the request's view of it and
// answers with the new view.
func (s *Server) change(q *request, manager string, dryRun bool, next func(view runtime.Object) (runtime.Object, error)) error {
	e := edit{apply: next, tracks: true, manager: manager, dryRun: dryRun}
	view, isView := as[View](q.sub)
	if isView {
		if q.sub.replicas != nil {
			tracker, err := q.kind.tracker(viewOf(q.sub))
			if err != nil {
				return err
			}
			e.tracks = false
			next = s.ownedView(q, tracker, manager, next)
		}
		s.changesView(q, view, &e, next)
	}
	obj, err := s.edit(q, e)
	if err != nil {
		return err
	}
	if isView {
		if obj, err = q.show(view.From, obj); err != nil {
			return err
		}
	}
	return s.responder.respond(q, http.StatusOK, obj)
}

// ownedView returns next with manager as the owner of the fields that it changes in a view.
func (s *Server) ownedView(q *request, t *ownership.Tracker, manager string, next func(view runtime.Object) (runtime.Object, error)) func(view runtime.Object) (runtime.Object, error) {
	return func(view runtime.Object) (runtime.Object, error) {
		body, err := next(view)
		if err == nil {
			s.ownerless(q, body, t.Update(view, body, q.manager(manager)))
		}
		return body, err
	}
}

// changesView makes e an edit that lets next change the subresource's view of an object. Admission is asked
// about the view. Validating admission sees the view of the object as it will be stored.
func (s *Server) changesView(q *request, v View, e *edit, next func(runtime.Object) (runtime.Object, error)) {
	var in *admission.Request
	e.admitted = true
	e.apply = func(old runtime.Object) (obj runtime.Object, err error) {
		in, obj, err = s.changeView(q, v, e.dryRun, old, next)
		return obj, err
	}
	e.validate = func(obj, old runtime.Object) error {
		view, err := q.show(v.From, obj)
		if err != nil {
			return err
		}
		was, err := q.show(v.From, old)
		if err != nil {
			return err
		}
		in.Object, in.OldObject = view, was
		return s.admitter.validate(q, in)
	}
}

// changeView lets next change the subresource's view of old, which has those owners of old who own what it
// shows. changeView asks mutating admission about the view, and returns the object that the view demands, with
// the owners of the view.
func (s *Server) changeView(q *request, v View, dryRun bool, old runtime.Object, next func(runtime.Object) (runtime.Object, error)) (*admission.Request, runtime.Object, error) {
	base := v.Base
	if base == nil {
		base = v.From
	}
	view, err := q.show(base, old)
	if err != nil {
		return nil, nil, err
	}
	var owners *managedfields.ScaleHandler
	if q.sub.replicas != nil {
		owners = q.sub.replicas.Of(accessor(old), q.kind.gvk.GroupVersion())
		entries, err := owners.ToSubresource()
		if err != nil {
			return nil, nil, err
		}
		accessor(view).SetManagedFields(entries)
	}
	body, err := next(view)
	if err != nil {
		return nil, nil, err
	}
	in := q.admissionRequest(admission.Update, body, view, dryRun)
	if err := s.admitter.mutate(q, in); err != nil {
		return nil, nil, err
	}
	obj, err := q.intoParent(v, old, admitted(in))
	if err != nil || owners == nil {
		return in, obj, err
	}
	entries, err := owners.ToParent(accessor(admitted(in)).GetManagedFields())
	accessor(obj).SetManagedFields(entries)
	return in, obj, err
}

// intoParent returns a copy of old changed as body, of the subresource's type,
// demands, on body's conditions of uid and resourceVersion.
func (q *request) intoParent(v View, old, body runtime.Object) (runtime.Object, error) {
	obj := old.DeepCopyObject()
	if err := v.Into(obj, body); err != nil {
		return nil, err
	}
	to, from := accessor(obj), accessor(body)
	to.SetResourceVersion(from.GetResourceVersion())
	to.SetUID(from.GetUID())
	return obj, nil
}

// ownType reports whether the request is for a subresource of its own type.
func (q *request) ownType() bool { return q.sub != nil && q.sub.newBody != nil }

func (q *request) newBody() runtime.Object {
	if q.ownType() {
		return q.sub.newBody()
	}
	return q.kind.New()
}

// sameName checks name and namespace against the URL, and completes the latter.
func (q *request) sameName(m metav1.Object) error {
	if m.GetName() != q.info.Name {
		if m.GetName() == "" {
			return q.nameless()
		}
		return badRequest("the name of the object (%s) does not match the name on the URL (%s)", m.GetName(), q.info.Name)
	}
	return q.sameNamespace(m)
}

// nameless returns the error of an object that must have a name and has none.
func (q *request) nameless() error {
	return badRequest("the name of the object (%s based on URL) was undeterminable: name must be provided", q.info.Name)
}

// sameNamespace checks the namespace against the URL, and completes it. An object outside of namespaces
// loses its own.
func (q *request) sameNamespace(m metav1.Object) error {
	if ns := m.GetNamespace(); ns != "" && q.info.Namespace != "" && ns != q.info.Namespace {
		return badRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	m.SetNamespace(q.info.Namespace)
	return nil
}

// patch changes the object, or what a subresource shows of it, by a patch.
func (s *Server) patch(q *request) error {
	var o metav1.PatchOptions
	if err := requestline.Options(q.r.URL.Query(), &o); err != nil {
		return err
	}
	q.options = &o
	media := types.PatchType(wire.ContentType(q.r))
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

// checkPatch fails if the body is a patch in a media type that the kind does not take. The words are those of kube-apiserver.
func (q *request) checkPatch() error {
	if q.info.Verb != "patch" {
		return nil
	}
	switch known, media := q.kind.patches(), wire.ContentType(q.r); {
	case slices.Contains(known, media), media == wire.CBORApply: // which is read as another one
		return nil
	case q.kind.Schema != nil:
		return wire.UnsupportedMedia(strings.Join(known, ", "))
	default:
		return statusError(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, "415: Unsupported Media Type")
	}
}

// patches returns the media types of patches that the kind takes.
func (k *servedKind) patches() []string {
	all := []string{string(types.JSONPatchType), string(types.MergePatchType), string(types.StrategicMergePatchType), string(types.ApplyYAMLPatchType)}
	if k.Schema != nil {
		all = slices.Delete(all, 2, 3) // no Go type says how lists merge
	}
	return all
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
		return nil, unfit(err, media, patch, result)
	}
	return p.Rest, q.sameName(accessor(p.Rest))
}

// maxUnfit bounds what the error of a patch shows of its result, in bytes.
const maxUnfit = 16 << 10

// unfit returns the error of a patch whose result is no object of the kind: 422, as in Kubernetes, which shows the result, or
// a strategic patch itself.
func unfit(err error, media types.PatchType, patch, result []byte) error {
	if !apierrors.IsBadRequest(err) {
		return err
	}
	value := string(result)
	if media == types.StrategicMergePatchType {
		var m map[string]any
		if json.Unmarshal(patch, &m) == nil {
			value = fmt.Sprint(m)
		}
	}
	if len(value) > maxUnfit {
		value = strings.ToValidUTF8(value[:maxUnfit], "") + "..."
	}
	text := err.Error()
	if _, cause, ok := strings.Cut(text, " cannot be handled as a "); ok {
		if _, rest, ok := strings.Cut(cause, ": "); ok {
			text = rest
		}
	}
	return invalid.Object(schema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), value, text)})
}
