package apiserver

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/storage"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func (s *Server) delete(q *request) error {
	o, err := q.deleteOptions(s)
	if err != nil {
		return err
	}
	obj, gone, err := s.remove(q, o)
	if err != nil {
		return err
	}
	if !gone {
		return s.respond(q, http.StatusOK, obj)
	}
	q.out.shape = whole
	s.write(q.w, q.r, http.StatusOK, q.out, &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusSuccess,
		Details: &metav1.StatusDetails{ // Kubernetes puts the resource in Kind
			Name: q.info.Name, Group: q.kind.Group, Kind: q.kind.Plural, UID: accessor(obj).GetUID(),
		},
	})
	return nil
}

// deleteOptions reads the options from the body, or from the query where there
// is none.
func (q *request) deleteOptions(s *Server) (*metav1.DeleteOptions, error) {
	o := &metav1.DeleteOptions{}
	data, err := q.body()
	if err != nil {
		return nil, err
	}
	if len(data) == 0 {
		if err := decodeQuery(q.r.URL.Query(), o); err != nil {
			return nil, err
		}
	} else {
		from, err := s.codec.reader(contentType(q.r), metav1.FieldValidationIgnore, o)
		if err != nil {
			return nil, err
		}
		// Clients write any group's version here; only the kind tells.
		want := schema.GroupVersionKind{Version: "v1", Kind: "DeleteOptions"}
		text, _, err := s.codec.asJSON(q.r.Context(), data, contentType(q.r), false)
		if err != nil {
			return nil, badRequest("the body of the request could not be read as DeleteOptions: %v", err)
		}
		if err := s.codec.affordable(q.r.Context(), text, contentType(q.r), o); err != nil {
			return nil, err
		}
		_, got, err := from.Decode(text, &want, o)
		if err != nil {
			return nil, badRequest("the body of the request could not be read as DeleteOptions: %v", err)
		}
		if got.Kind != want.Kind {
			return nil, badRequest("%s in version %q cannot be handled as a DeleteOptions", got.Kind, got.Version)
		}
	}
	if o.GracePeriodSeconds != nil && *o.GracePeriodSeconds < 0 {
		*o.GracePeriodSeconds = 1 // as Kubernetes understands it
	}
	q.options = o
	return o, invalidOptions("DeleteOptions", metavalidation.ValidateDeleteOptions(o))
}

// remove deletes the request's object, or marks it as being deleted where
// grace or finalizers keep it. It returns the object in its last state and
// whether it is gone.
func (s *Server) remove(q *request, o *metav1.DeleteOptions) (obj runtime.Object, gone bool, err error) {
	obj, err = s.onRecord(q, func(record storage.Record) (runtime.Object, error) {
		i, err := q.kind.item(record)
		if err != nil {
			return nil, err
		}
		old := i.Object.Object
		q.was = i.Object.initializers
		if err := q.checkPreconditions(old, o.Preconditions); err != nil {
			return nil, err
		}
		in := q.admissionRequest(admission.Delete, nil, old, len(o.DryRun) > 0)
		if err := s.mutate(q, in); err != nil {
			return nil, err
		}
		if err := s.validate(q, in); err != nil {
			return nil, err
		}
		var last runtime.Object
		last, gone, err = s.removeRecord(q, o, record, old)
		return last, err
	})
	return obj, gone, storageError(err, q.kind.gr, q.info.Name)
}

func (s *Server) removeRecord(q *request, o *metav1.DeleteOptions, record storage.Record, old runtime.Object) (runtime.Object, bool, error) {
	obj := old.DeepCopyObject()
	// Nobody who would have to do something first has seen what is uninitialized.
	stays := q.was == nil && q.kind.doom(obj, o, time.Now())
	change := storage.Change{Op: storage.Delete, Key: record.Key, Previous: record.Revision}
	if stays {
		data, err := q.kind.encode(obj)
		if err != nil || bytes.Equal(data, record.Value) && !record.Stale {
			return obj, false, err
		}
		change.Op, change.Value = storage.Update, data
	}
	if len(o.DryRun) > 0 {
		return obj, !stays, nil
	}
	written, err := s.config.Store.Commit(q.r.Context(), change)
	if err != nil {
		return nil, false, err
	}
	q.kind.standAt(obj, written.Revision)
	if stays {
		q.kind.cache.put(record.Key, written.Revision, obj, nil)
	} else {
		s.giveBack(q, old, nil, written.Revision)
	}
	return obj, !stays, nil
}

func (q *request) checkPreconditions(obj runtime.Object, p *metav1.Preconditions) error {
	if p == nil {
		return nil
	}
	m := accessor(obj)
	if p.UID != nil && *p.UID != m.GetUID() {
		return q.unmet("UID", string(*p.UID), string(m.GetUID()), "deleted and then recreated")
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != m.GetResourceVersion() {
		return q.unmet("ResourceVersion", *p.ResourceVersion, m.GetResourceVersion(), "modified")
	}
	return nil
}

// unmet is Kubernetes' text for a precondition of a deletion, which names the
// kind where other conflicts name the resource.
func (q *request) unmet(what, want, have, why string) error {
	text := fmt.Sprintf("the %s in the precondition (%s) does not match the %s in record (%s). The object might have been %s", what, want, what, have, why)
	return apierrors.NewConflict(schema.GroupResource{Group: q.kind.Group, Resource: q.kind.Kind}, q.info.Name, errors.New(text))
}

func (q *request) failed(what, want, have string) error {
	text := fmt.Sprintf("Precondition failed: %s in precondition: %s, %s in object meta: %s", what, want, what, have)
	return apierrors.NewConflict(q.kind.gr, q.info.Name, errors.New(text))
}
