package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/planekit/planekit/storage"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// How long a read waits for a revision that the store has not reached, as
// kube-apiserver does, and how often it looks.
const (
	futureTimeout  = 3 * time.Second
	futureInterval = 25 * time.Millisecond
)

func (s *Server) get(q *request) error {
	var o metav1.GetOptions
	if err := decodeQuery(q.r.URL.Query(), &o); err != nil {
		return err
	}
	revision, err := parseRevision(o.ResourceVersion)
	if err != nil {
		return err
	}
	if err := s.await(q.r.Context(), q.kind, revision); err != nil {
		return err
	}
	_, obj, err := s.load(q.r.Context(), q)
	if err != nil {
		return err
	}
	return s.respond(q, http.StatusOK, obj)
}

// getSub shows a subresource: the object itself, or what From makes of it.
func (s *Server) getSub(q *request) error {
	_, obj, err := s.load(q.r.Context(), q)
	if err != nil {
		return err
	}
	if q.sub.New != nil {
		if obj, err = q.show(obj); err != nil {
			return err
		}
	}
	return s.respond(q, http.StatusOK, obj)
}

// show is the subresource's view of the stored object.
func (q *request) show(obj runtime.Object) (runtime.Object, error) {
	view, err := q.sub.From(obj)
	if err != nil {
		return nil, err
	}
	view.GetObjectKind().SetGroupVersionKind(q.bodyKind())
	return view, nil
}

// load reads the request's object as it is now. It is shared: do not change it.
func (s *Server) load(ctx context.Context, q *request) (storage.Record, runtime.Object, error) {
	record, err := s.config.Store.Get(ctx, q.key(), 0)
	if err != nil {
		return record, nil, storageError(err, q.kind.gr, q.info.Name)
	}
	obj, err := q.kind.decode(record)
	return record, obj, err
}

// await waits until the store has reached revision. Revisions come from the
// same store, so one that it has not reached is made up, or from a copy which
// is ahead of it and about to be caught up with.
func (s *Server) await(ctx context.Context, k *kind, revision storage.Revision) error {
	if revision == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, futureTimeout)
	defer cancel()
	tick := time.NewTicker(futureInterval)
	defer tick.Stop()
	for {
		page, err := s.config.Store.List(ctx, storage.Key(k.root), storage.ListOptions{Limit: 1})
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		if err == nil && page.Revision >= revision {
			return nil
		}
		select {
		case <-ctx.Done():
			return tooLargeRevision(revision, page.Revision)
		case <-tick.C:
		}
	}
}

func tooLargeRevision(want, have storage.Revision) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", want, have), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version",
	}}
	return err
}

func isTooLarge(err error) bool {
	var tooLarge *http.MaxBytesError
	return errors.As(err, &tooLarge)
}
