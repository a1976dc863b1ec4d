package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/apiserver/internal/requestline"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/cache"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// futureTimeout is how long a read waits for a revision that the store has not
// reached, as in kube-apiserver.
const futureTimeout = 3 * time.Second

func (s *Server) get(q *request) error {
	var o metav1.GetOptions
	if err := requestline.Options(q.r.URL.Query(), &o); err != nil {
		return err
	}
	i, err := s.reader.read(q.r.Context(), q, o.ResourceVersion)
	if err != nil {
		return err
	}
	if !q.ready() {
		q.hiding.is = i.Object.hidden
		return s.responder.respond(q, http.StatusOK, i.Object.Object)
	}
	return s.responder.respondItem(q, i)
}

// getStatus serves the object under the path of one of its parts.
func (s *Server) getStatus(q *request) error {
	i, err := s.reader.read(q.r.Context(), q, "")
	if err != nil {
		return err
	}
	q.hiding.is = i.Object.hidden
	return s.responder.respond(q, http.StatusOK, i.Object.Object)
}

// getView serves what v shows of the object.
func (s *Server) getView(q *request, v View) error {
	i, err := s.reader.read(q.r.Context(), q, "")
	if err != nil {
		return err
	}
	obj, err := q.show(v, i.Object.Object)
	if err != nil {
		return err
	}
	return s.responder.respond(q, http.StatusOK, obj)
}

// show returns what v shows of obj.
func (q *request) show(v View, obj runtime.Object) (runtime.Object, error) {
	view, err := v.From(obj)
	if err != nil {
		return nil, err
	}
	view.GetObjectKind().SetGroupVersionKind(q.bodyKind())
	return view, nil
}

// A reader reads objects as the caches have them, and from the store where a cache does not reach.
type reader struct {
	store storage.Store
	feed  *cache.Feed
	log   logr.Logger
}

// read returns the request's object, not older than version; where that is
// empty, with every change that was acknowledged before. It is shared: do not
// change it.
func (d *reader) read(ctx context.Context, q *request, version string) (*item, error) {
	var i *item
	var err error
	if version == "" {
		i, err = q.kind.cache.Get(ctx, q.key())
	} else if err = d.await(ctx, q.kind, version); err == nil {
		var found bool
		if i, found = q.kind.cache.Peek(q.key()); !found {
			err = storage.ErrNotFound
		}
	}
	if errors.Is(err, cache.ErrBehind) {
		var record storage.Record
		if record, err = d.store.Get(ctx, q.key(), 0); err == nil {
			i, err = q.kind.item(record)
		}
	}
	if err != nil {
		return nil, storageError(err, q.kind.gr, q.info.Name)
	}
	if i.Err == nil && i.Object.hidden != nil && !q.includesHidden() {
		return nil, apierrors.NewNotFound(q.kind.gr, q.info.Name)
	}
	return i, i.Err
}

// await waits until the cache is not older than version. Revisions come from the
// store, so one that it has not reached is made up, or from a copy which is
// ahead of it and about to be caught up with.
func (d *reader) await(ctx context.Context, k *kind, version string) error {
	revision, err := parseRevision(version)
	if err != nil {
		return err
	}
	soon, cancel := context.WithTimeout(ctx, futureTimeout)
	defer cancel()
	if err = k.cache.Wait(soon, revision); ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	now, err := d.feed.Now(ctx)
	if err == nil && now >= revision {
		return cache.ErrBehind
	}
	return errors.Join(err, tooLargeRevision(revision, now))
}

func tooLargeRevision(want, have storage.Revision) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", want, have), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version",
	}}
	return err
}
